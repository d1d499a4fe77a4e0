"""Cells of toy-model sweeps in SQL: each is counted when it begins, and kept once it is finished."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from gramian.analyses import Status
from gramian.errors import LeaseLost
from gramian.storage.blobs import StoredFile
from gramian.storage.inserting import insert
from gramian.storage.tables import AnalysisRow, FileRow, ToyCellRow


@dataclass(frozen=True)
class FinishedCell:
    """What a cell showed."""

    number: int
    result: dict[str, Any]
    attempts: int


class ToyCellRepository:
    """Every write is made under the fence of the analysis, whose row it locks: a late writer finds its claim gone."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def finished(self, analysis_id: str) -> list[FinishedCell]:
        """The finished cells, by number."""
        query = (
            select(ToyCellRow.number, ToyCellRow.result, ToyCellRow.attempts)
            .where(ToyCellRow.analysis_id == analysis_id, ToyCellRow.result.is_not(None))
            .order_by(ToyCellRow.number)
        )
        return [FinishedCell(*row) for row in self.session.execute(query)]

    def begin(self, analysis_id: str, fence: int, number: int) -> None:
        """Count one more attempt at a cell, or raise LeaseLost."""
        self._hold(analysis_id, fence)
        first = insert(self.session, ToyCellRow).values(analysis_id=analysis_id, number=number, attempts=1)
        self.session.execute(
            first.on_conflict_do_update(
                index_elements=["analysis_id", "number"], set_={"attempts": ToyCellRow.attempts + 1}
            )
        )

    def finish(
        self, analysis_id: str, fence: int, number: int, result: dict[str, Any], *, name: str, file: StoredFile
    ) -> None:
        """Keep what a cell showed, with its file, or raise LeaseLost. Repeated after an unclear commit it does nothing.

        A finished cell shows that the analysis is not what takes workers down: its deliveries are counted anew.
        """
        self._hold(analysis_id, fence)
        kept = self.session.execute(
            update(ToyCellRow)
            .where(ToyCellRow.analysis_id == analysis_id, ToyCellRow.number == number, ToyCellRow.result.is_(None))
            .values(result=result)
            .returning(ToyCellRow.number)
        ).scalar()
        if kept is None:
            return
        self.session.add(FileRow(analysis_id=analysis_id, name=name, **vars(file)))
        self.session.execute(update(AnalysisRow).where(AnalysisRow.id == analysis_id).values(deliveries=1))

    def _hold(self, analysis_id: str, fence: int) -> None:
        owned = select(AnalysisRow.id).where(
            AnalysisRow.id == analysis_id, AnalysisRow.fence == fence, AnalysisRow.status == Status.RUNNING
        )
        if self.session.scalar(owned.with_for_update()) is None:
            raise LeaseLost(f"analysis {analysis_id} is no longer run under fence {fence}")
