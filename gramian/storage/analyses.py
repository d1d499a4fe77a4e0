"""Analyses in SQL: accepted once, found, given up by those who asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import TextClause, and_, func, select, text, update
from sqlalchemy.orm import Session

from gramian.analyses import ANSWERING, ENDED, Status
from gramian.errors import Conflict, NotFound
from gramian.storage.drift import tell_end
from gramian.storage.events import record
from gramian.storage.inserting import insert
from gramian.storage.paging import Order, Page, fetch_page
from gramian.storage.tables import AnalysisRow, LabelRow

#: The predicate of the unique index, letter by letter: databases infer the index from its text.
ANSWERING_INDEX: TextClause = text("status IN ('queued', 'running', 'succeeded')")

PROMOTION = ("batch", "interactive")

SORTS = {"created_at": AnalysisRow.created_at, "finished_at": AnalysisRow.finished_at, "id": AnalysisRow.id}


@dataclass(frozen=True)
class Accepted:
    """The analysis that answers a question."""

    row: AnalysisRow
    is_new: bool
    is_urgent_now: bool = False  # it waited as `batch`, and somebody asked for it interactively

    @property
    def needs_message(self) -> bool:
        return self.is_new or self.is_urgent_now


class AnalysisRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    # -- accepting and reading --

    def accept(self, analysis: AnalysisRow, labels: dict[str, str]) -> Accepted:
        """Insert, or find the analysis that already answers the question.

        Labels are added to what is found, so that every caller finds it by its own; one that it has is kept.
        """
        answering = AnalysisRow.status.in_([status.value for status in ANSWERING])
        analysis.project_id = self.session.info["project"]
        values = {
            column.key: getattr(analysis, column.key)
            for column in AnalysisRow.__table__.columns
            if getattr(analysis, column.key) is not None
        }
        insertion = (
            insert(self.session, AnalysisRow)
            .values(values)
            .on_conflict_do_nothing(index_elements=["project_id", "dedupe_key"], index_where=ANSWERING_INDEX)
            .returning(AnalysisRow.id)
        )
        while True:
            if inserted := self.session.execute(insertion).scalar():
                record(self.session, inserted, "status", {"status": Status.QUEUED, "attempt": 0})
                return Accepted(self._labelled(self.get(inserted), labels), is_new=True)
            existing = self.session.scalars(
                select(AnalysisRow).where(AnalysisRow.dedupe_key == analysis.dedupe_key, answering)
            ).one_or_none()
            if existing:  # else it failed or was cancelled between the two statements: insert again
                urgent_now = existing.status == Status.QUEUED and (existing.priority, analysis.priority) == PROMOTION
                if existing.status not in ENDED:
                    self._count_caller(existing, priority=analysis.priority if urgent_now else existing.priority)
                return Accepted(self._labelled(existing, labels), is_new=False, is_urgent_now=urgent_now)

    def _count_caller(self, analysis: AnalysisRow, *, priority: str) -> None:
        self.session.execute(
            update(AnalysisRow)
            .where(AnalysisRow.id == analysis.id)
            .values(callers=AnalysisRow.callers + 1, priority=priority)
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

    # -- no longer wanted --

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
            row.events += 1
            self.session.flush()
            record(self.session, id, "status", {"status": Status.CANCELLED, "attempt": row.fence})
            tell_end(self.session, id)
        self.session.flush()
        return row, before

    def unfinished(self, key_id: str | None) -> int:
        """How many analyses that a key asked for first have not ended; without a key: of whoever had none."""
        waiting = AnalysisRow.status.in_([Status.QUEUED, Status.RUNNING])
        query = select(func.count()).select_from(AnalysisRow).where(AnalysisRow.key_id == key_id, waiting)
        return self.session.scalar(query) or 0

    def uses_upload(self, upload_id: str) -> bool:
        """Whether an unfinished analysis still needs the upload's bytes."""
        unfinished = AnalysisRow.status.in_([Status.QUEUED, Status.RUNNING])
        query = select(AnalysisRow.id).where(AnalysisRow.upload_id == upload_id, unfinished).limit(1)
        return self.session.scalar(query) is not None
