"""Analyses in SQL: accepted once, claimed under a fence, finished in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, TextClause, and_, or_, select, text, update
from sqlalchemy.orm import Session

from gramian.analyses import ANSWERING, ENDED, Status
from gramian.errors import Conflict, LeaseLost, NotFound
from gramian.storage.engine import database_epoch
from gramian.storage.inserting import insert
from gramian.storage.paging import Order, Page, fetch_page
from gramian.storage.tables import AnalysisRow, LabelRow, MatrixRow

#: The predicate of the unique index, letter by letter: databases infer the index from its text.
ANSWERING_INDEX: TextClause = text("status IN ('queued', 'running', 'succeeded')")

SORTS = {"created_at": AnalysisRow.created_at, "finished_at": AnalysisRow.finished_at, "id": AnalysisRow.id}


@dataclass(frozen=True)
class Outcome:
    """What a successful run leaves behind."""

    matrices: Sequence[MatrixRow]
    digest: str
    tying: dict[str, Any]
    warnings: list[dict[str, str]]
    device: str
    torch_version: str
    seconds: dict[str, float]
    bytes_fetched: int


@dataclass(frozen=True)
class Claim:
    """The right to run an analysis, and what is needed to do so."""

    id: str
    fence: int
    failures: int  # transient errors so far
    spec: dict[str, Any]
    identity: dict[str, Any]


class AnalysisRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    # -- accepting and reading --

    def accept(self, analysis: AnalysisRow, labels: dict[str, str]) -> tuple[AnalysisRow, bool]:
        """Insert, or find the analysis that already answers the question; True if it was inserted.

        Labels are added to what is found, so that every caller finds it by its own; one that it has is kept.
        """
        answering = AnalysisRow.status.in_([status.value for status in ANSWERING])
        values = {
            column.key: getattr(analysis, column.key)
            for column in AnalysisRow.__table__.columns
            if getattr(analysis, column.key) is not None
        }
        insertion = (
            insert(self.session, AnalysisRow)
            .values(values)
            .on_conflict_do_nothing(index_elements=["dedupe_key"], index_where=ANSWERING_INDEX)
            .returning(AnalysisRow.id)
        )
        while True:
            if inserted := self.session.execute(insertion).scalar():
                return self._labelled(self.get(inserted), labels), True
            existing = self.session.scalars(
                select(AnalysisRow).where(AnalysisRow.dedupe_key == analysis.dedupe_key, answering)
            ).one_or_none()
            if existing:  # else it failed or was cancelled between the two statements: insert again
                if existing.status not in ENDED:
                    self._count_caller(existing)
                return self._labelled(existing, labels), False

    def _count_caller(self, analysis: AnalysisRow) -> None:
        self.session.execute(
            update(AnalysisRow).where(AnalysisRow.id == analysis.id).values(callers=AnalysisRow.callers + 1)
        )
        self.session.refresh(analysis)

    def _labelled(self, analysis: AnalysisRow, labels: dict[str, str]) -> AnalysisRow:
        for name, value in labels.items():
            values = {"analysis_id": analysis.id, "name": name, "value": value}
            self.session.execute(insert(self.session, LabelRow).values(values).on_conflict_do_nothing())
        self.session.refresh(analysis, ["labels"])
        return analysis

    def get(self, id: str) -> AnalysisRow:
        row = self.session.get(AnalysisRow, id) if "\x00" not in id else None
        if row is None:
            raise NotFound("analysis", id, hint="GET /v1/analyses lists the analyses there are")
        return row

    def search(
        self,
        *,
        kind: str | None,
        status: Status | None,
        model_id: str | None,
        labels: Sequence[tuple[str, str | None]],
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> Page:
        query = select(AnalysisRow)
        if kind:
            query = query.where(AnalysisRow.kind == kind)
        if status:
            query = query.where(AnalysisRow.status == status)
        if model_id:
            query = query.where(AnalysisRow.model_id == model_id)
        for name, value in labels:
            wanted = LabelRow.name == name if value is None else and_(LabelRow.name == name, LabelRow.value == value)
            query = query.where(AnalysisRow.labels.any(wanted))
        order = Order.parse(sort, SORTS, AnalysisRow.id)
        return fetch_page(self.session, query, order=order, cursor=cursor, limit=limit)

    # -- running --

    def claim(self, id: str, *, lease_seconds: float) -> Claim | None:
        """Take the analysis if it waits, or runs under an expired lease."""
        now = database_epoch()
        due = or_(AnalysisRow.due_at.is_(None), AnalysisRow.due_at <= now)
        free = or_(and_(_has(Status.QUEUED), due), and_(_has(Status.RUNNING), AnalysisRow.lease_until < now))
        row = self.session.execute(
            update(AnalysisRow)
            .where(AnalysisRow.id == id, free)
            .values(
                status=Status.RUNNING,
                fence=AnalysisRow.fence + 1,
                deliveries=AnalysisRow.deliveries + 1,
                lease_until=now + lease_seconds,
                started_at=datetime.now(UTC),
                stage=None,
                fraction=None,
                message=None,
            )
            .returning(AnalysisRow.fence, AnalysisRow.failures, AnalysisRow.spec, AnalysisRow.identity)
            .execution_options(synchronize_session=False)
        ).one_or_none()
        return Claim(id, *row) if row else None

    def renew(self, id: str, fence: int, *, lease_seconds: float) -> bool:
        """Keep the claim; False if it is another's now."""
        return self._write_as_owner(id, fence, lease_until=database_epoch() + lease_seconds)

    def report(self, id: str, fence: int, *, stage: str, fraction: float, message: str) -> bool:
        return self._write_as_owner(id, fence, stage=stage, fraction=fraction, message=message)

    def succeed(self, id: str, fence: int, outcome: Outcome, *, gramian_version: str) -> None:
        """Store the result and end the analysis, or raise LeaseLost and store nothing."""
        owned = self._write_as_owner(
            id,
            fence,
            status=Status.SUCCEEDED,
            finished_at=datetime.now(UTC),
            lease_until=None,
            stage="done",
            fraction=1.0,
            message=None,
            digest=outcome.digest,
            tying=outcome.tying,
            warnings=outcome.warnings,
            device=outcome.device,
            torch_version=outcome.torch_version,
            seconds=outcome.seconds,
            bytes_fetched=outcome.bytes_fetched,
            gramian_version=gramian_version,
        )
        if not owned:
            raise LeaseLost(f"analysis {id} is no longer run under fence {fence}")
        self.session.add_all(outcome.matrices)

    def fail(self, id: str, fence: int, error: dict[str, Any]) -> None:
        """End the analysis with the reason, or raise LeaseLost."""
        owned = self._write_as_owner(
            id, fence, status=Status.FAILED, finished_at=datetime.now(UTC), lease_until=None, error=error
        )
        if not owned:
            raise LeaseLost(f"analysis {id} is no longer run under fence {fence}")

    def owns(self, id: str, fence: int) -> bool:
        """Whether the claim still stands."""
        query = select(AnalysisRow.id).where(AnalysisRow.id == id, AnalysisRow.fence == fence, _has(Status.RUNNING))
        return self.session.scalar(query) is not None

    def postpone(self, id: str, fence: int, *, seconds: float, error: dict[str, Any]) -> None:
        """Give the analysis back to the queue after a transient error, or raise LeaseLost."""
        owned = self._write_as_owner(
            id,
            fence,
            status=Status.QUEUED,
            lease_until=None,
            pushed_at=None,
            due_at=database_epoch() + seconds,
            failures=AnalysisRow.failures + 1,
            stage="waiting",
            message=f"tried again in {seconds:.0f} s: {error['detail']}",
        )
        if not owned:
            raise LeaseLost(f"analysis {id} is no longer run under fence {fence}")

    def cancel(self, id: str) -> tuple[AnalysisRow, Status]:
        """One caller no longer wants the answer; the last one's word ends it. Also the status before."""
        row = self.session.scalars(select(AnalysisRow).where(AnalysisRow.id == id).with_for_update()).one_or_none()
        if row is None:
            raise NotFound("analysis", id, hint="GET /v1/analyses lists the analyses there are")
        before = Status(row.status)
        if before in (Status.SUCCEEDED, Status.FAILED):
            raise Conflict(f"analysis {id!r} has {before} already", hint="there is nothing left to cancel")
        if before == Status.CANCELLED:
            return row, before
        row.callers -= 1
        if row.callers <= 0:
            row.status, row.finished_at = Status.CANCELLED, datetime.now(UTC)
            row.lease_until = row.pushed_at = None
        self.session.flush()
        return row, before

    # -- reconciling --

    def unattended(self, *, seconds: float, limit: int = 500) -> list[AnalysisRow]:
        """What waits and had no message `seconds` ago, and what runs under an expired lease."""
        now = database_epoch()
        stale = or_(AnalysisRow.pushed_at.is_(None), AnalysisRow.pushed_at < now - seconds)
        due = or_(AnalysisRow.due_at.is_(None), AnalysisRow.due_at <= now)
        waiting = and_(_has(Status.QUEUED), stale, due)
        orphaned = and_(_has(Status.RUNNING), AnalysisRow.lease_until < now)
        query = select(AnalysisRow).where(or_(waiting, orphaned)).order_by(AnalysisRow.id).limit(limit)
        return list(self.session.scalars(query))

    def mark_pushed(self, ids: Sequence[str]) -> None:
        self.session.execute(update(AnalysisRow).where(AnalysisRow.id.in_(ids)).values(pushed_at=database_epoch()))

    def bury(self, id: str, fence: int, error: dict[str, Any]) -> bool:
        """Fail an orphan that took its process down too often, unless somebody claimed it meanwhile."""
        return self._write_as_owner(
            id,
            fence,
            AnalysisRow.lease_until < database_epoch(),
            status=Status.FAILED,
            finished_at=datetime.now(UTC),
            lease_until=None,
            error=error,
        )

    def uses_upload(self, upload_id: str) -> bool:
        """Whether an unfinished analysis still needs the upload's bytes."""
        unfinished = _has(Status.QUEUED, Status.RUNNING)
        query = select(AnalysisRow.id).where(AnalysisRow.upload_id == upload_id, unfinished).limit(1)
        return self.session.scalar(query) is not None

    def _write_as_owner(self, id: str, fence: int, *conditions: ColumnElement[bool], **values: Any) -> bool:
        owned = and_(AnalysisRow.id == id, AnalysisRow.fence == fence, _has(Status.RUNNING), *conditions)
        result = self.session.execute(
            update(AnalysisRow)
            .where(owned)
            .values(**values)
            .returning(AnalysisRow.id)
            .execution_options(synchronize_session=False)
        )
        return result.scalar() is not None


def ended_among(engine: Engine, ids: Sequence[str]) -> set[str]:
    """Those of `ids` that will not change any more; asked many times a second, so without a session."""
    with engine.execution_options(writes=False).connect() as connection:
        return set(connection.scalars(select(AnalysisRow.id).where(AnalysisRow.id.in_(ids), _has(*ENDED))))


def _has(*statuses: Status) -> ColumnElement[bool]:
    return AnalysisRow.status.in_([status.value for status in statuses])
