"""Running analyses in SQL: claimed under a fence, renewed, finished in one transaction, or found abandoned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import Session

from gramian.analyses import Status
from gramian.errors import LeaseLost
from gramian.storage.blobs import StoredFile
from gramian.storage.drift import tell_end
from gramian.storage.engine import database_epoch, database_started
from gramian.storage.events import EventType, record
from gramian.storage.tables import AnalysisRow, FileRow, MatrixRow

PAUSE_LEASES = 2  # nobody could renew while the database was away: owners go first when it is back


@dataclass(frozen=True)
class Outcome:
    """What a successful run leaves behind: rows of matrices, or an answer, and files; and what they rest on."""

    device: str
    torch_version: str
    seconds: dict[str, float]
    digest: str | None = None
    matrices: Sequence[MatrixRow] = ()
    tying: dict[str, Any] | None = None
    alignment: dict[str, Any] | None = None
    warnings: list[dict[str, str]] | None = None
    bytes_fetched: int | None = None
    answer: dict[str, Any] | None = None
    files: Mapping[str, StoredFile] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """The right to run an analysis, and what is needed to do so."""

    id: str
    fence: int
    failures: int  # transient errors so far
    spec: dict[str, Any]
    identity: dict[str, Any]
    request_id: str | None  # of the request that asked first: log lines carry it


@dataclass(frozen=True)
class Step:
    """How far a run is: in the whole, and in the units of its stage."""

    stage: str
    fraction: float
    message: str
    done: int | None = None
    total: int | None = None
    unit: str | None = None
    seconds_left: float | None = None


NO_STEP: dict[str, None] = dict.fromkeys(Step.__dataclass_fields__)


class JobRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    # -- one run --

    def claim(self, id: str, *, lease_seconds: float) -> Claim | None:
        """Take the analysis if it waits, or runs under an expired lease."""
        free = or_(_waits_and_is_due(), _is_orphaned(lease_seconds))
        row = self.session.execute(
            update(AnalysisRow)
            .where(AnalysisRow.id == id, free)
            .values(
                status=Status.RUNNING,
                fence=AnalysisRow.fence + 1,
                deliveries=AnalysisRow.deliveries + 1,
                lease_until=database_epoch() + lease_seconds,
                started_at=datetime.now(UTC),
                events=AnalysisRow.events + 1,
                **NO_STEP,
            )
            .returning(
                AnalysisRow.fence,
                AnalysisRow.failures,
                AnalysisRow.spec,
                AnalysisRow.identity,
                AnalysisRow.request_id,
            )
            .execution_options(synchronize_session=False)
        ).one_or_none()
        if row is None:
            return None
        claim = Claim(id, *row)
        record(self.session, id, "status", {"status": Status.RUNNING, "attempt": claim.fence})
        return claim

    def owns(self, id: str, fence: int) -> bool:
        """Whether the claim still stands."""
        query = select(AnalysisRow.id).where(
            AnalysisRow.id == id, AnalysisRow.fence == fence, AnalysisRow.status == Status.RUNNING
        )
        return self.session.scalar(query) is not None

    def renew(self, id: str, fence: int, *, lease_seconds: float) -> bool:
        """Keep the claim; False if it is another's now."""
        return self._write_as_owner(id, fence, lease_until=database_epoch() + lease_seconds)

    def report(self, id: str, fence: int, step: Step) -> bool:
        """Write how far the run is; False if the claim is another's now."""
        return self._write_as_owner(id, fence, event=("progress", vars(step)), **vars(step))

    def succeed(self, id: str, fence: int, outcome: Outcome, *, gramian_version: str) -> None:
        """Store the result and end the analysis, or raise LeaseLost and store nothing."""
        self._end_as_owner(
            id,
            fence,
            Status.SUCCEEDED,
            **(NO_STEP | {"stage": "done", "fraction": 1.0}),
            digest=outcome.digest,
            tying=outcome.tying,
            alignment=outcome.alignment,
            warnings=outcome.warnings,
            device=outcome.device,
            torch_version=outcome.torch_version,
            seconds=outcome.seconds,
            bytes_fetched=outcome.bytes_fetched,
            answer=outcome.answer,
            gramian_version=gramian_version,
        )
        self.session.add_all(outcome.matrices)
        self.session.add_all(FileRow(analysis_id=id, name=name, **vars(file)) for name, file in outcome.files.items())
        self.session.flush()
        tell_end(self.session, id)

    def fail(self, id: str, fence: int, error: dict[str, Any]) -> None:
        """End the analysis with the reason, or raise LeaseLost."""
        self._end_as_owner(id, fence, Status.FAILED, error=error)
        tell_end(self.session, id)

    def postpone(self, id: str, fence: int, *, seconds: float, error: dict[str, Any]) -> None:
        """Give the analysis back to the queue after a transient error, or raise LeaseLost."""
        message = f"tried again in {seconds:.0f} s: {error['detail']}"
        self._requeue_as_owner(id, fence, message, due_at=database_epoch() + seconds, failures=AnalysisRow.failures + 1)

    def release(self, id: str, fence: int, message: str) -> None:
        """Give the analysis back unfinished though nothing failed, or raise LeaseLost."""
        self._requeue_as_owner(id, fence, message, deliveries=AnalysisRow.deliveries - 1)

    def _requeue_as_owner(self, id: str, fence: int, message: str, **values: Any) -> None:
        step: dict[str, Any] = NO_STEP | {"stage": "waiting", "message": message}
        event = {"status": Status.QUEUED, "attempt": fence, "message": message}
        owned = self._write_as_owner(
            id, fence, event=("status", event), status=Status.QUEUED, lease_until=None, pushed_at=None, **step, **values
        )
        _require(owned, id, fence)

    def _end_as_owner(self, id: str, fence: int, status: Status, **values: Any) -> None:
        _require(self._end(id, fence, status, **values), id, fence)

    def _end(self, id: str, fence: int, status: Status, *conditions: ColumnElement[bool], **values: Any) -> bool:
        event: dict[str, Any] = {"status": status, "attempt": fence}
        if error := values.get("error"):
            event["error"] = {"code": error["code"], "detail": error["detail"]}
        return self._write_as_owner(
            id,
            fence,
            *conditions,
            event=("status", event),
            status=status,
            finished_at=datetime.now(UTC),
            lease_until=None,
            **values,
        )

    # -- reconciling --

    def unattended(self, *, lease_seconds: float, limit: int = 500) -> list[AnalysisRow]:
        """What runs under an expired lease, and what waits and had no message for a lease's length.

        What is longest overdue comes first, so that a long queue keeps none of its rows from being looked at.
        """
        stale = or_(AnalysisRow.pushed_at.is_(None), AnalysisRow.pushed_at < database_epoch() - lease_seconds)
        forgotten = and_(_waits_and_is_due(), stale)
        query = select(AnalysisRow).where(or_(forgotten, _is_orphaned(lease_seconds)))
        order = (AnalysisRow.status.desc(), AnalysisRow.pushed_at.asc().nulls_first(), AnalysisRow.id)  # running first
        return list(self.session.scalars(query.order_by(*order).limit(limit)))

    def mark_pushed(self, ids: Sequence[str]) -> None:
        self.session.execute(update(AnalysisRow).where(AnalysisRow.id.in_(ids)).values(pushed_at=database_epoch()))

    def bury(self, id: str, fence: int, error: dict[str, Any]) -> bool:
        """Fail an orphan that took its process down too often, unless somebody claimed it meanwhile."""
        buried = self._end(id, fence, Status.FAILED, AnalysisRow.lease_until < database_epoch(), error=error)
        if buried:
            tell_end(self.session, id)
        return buried

    def _write_as_owner(
        self,
        id: str,
        fence: int,
        *conditions: ColumnElement[bool],
        event: tuple[EventType, dict[str, Any]] | None = None,
        **values: Any,
    ) -> bool:
        """Write under the fence, together with the event that tells of it; False if the claim is gone."""
        if event:
            values["events"] = AnalysisRow.events + 1
        owned = self.session.execute(
            update(AnalysisRow)
            .where(AnalysisRow.id == id, AnalysisRow.fence == fence, AnalysisRow.status == Status.RUNNING, *conditions)
            .values(**values)
            .returning(AnalysisRow.id)
            .execution_options(synchronize_session=False)
        ).scalar()
        if owned and event:
            record(self.session, id, *event)
        return owned is not None


def _require(owned: bool, id: str, fence: int) -> None:
    if not owned:
        raise LeaseLost(f"analysis {id} is no longer run under fence {fence}")


def _waits_and_is_due() -> ColumnElement[bool]:
    due = or_(AnalysisRow.due_at.is_(None), AnalysisRow.due_at <= database_epoch())
    return and_(AnalysisRow.status == Status.QUEUED, due)


def _is_orphaned(lease_seconds: float) -> ColumnElement[bool]:
    """Runs under an expired lease, and its owner had time to renew it since the database started."""
    expired = AnalysisRow.lease_until < database_epoch()
    return and_(AnalysisRow.status == Status.RUNNING, expired, is_settled(lease_seconds))


def is_settled(lease_seconds: float) -> ColumnElement[bool]:
    """Whether every owner had time to renew its lease since the database started."""
    return database_started() < database_epoch() - PAUSE_LEASES * lease_seconds
