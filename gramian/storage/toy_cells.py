"""Cells of toy-model sweeps in SQL: each is counted when it begins, and kept once it is finished.

The run that holds the analysis trains cells under the fence of the analysis. Others help it: each holds the cell that
it trains under a lease of its own. A cell that failed a helper, by its end or by an error, is left to the run, whose
crashes are counted and whose errors are told.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import Session

from gramian.analyses import Status
from gramian.errors import LeaseLost
from gramian.storage.blobs import StoredFile
from gramian.storage.engine import database_epoch
from gramian.storage.inserting import insert
from gramian.storage.jobs import is_settled
from gramian.storage.tables import AnalysisRow, FileRow, ToyCellRow

LIVE = (Status.QUEUED, Status.RUNNING)  # a helper's cell is wanted too while the sweep waits for its next run


@dataclass(frozen=True)
class FinishedCell:
    """What a cell showed."""

    number: int
    result: dict[str, Any]
    attempts: int


@dataclass(frozen=True)
class CellClaim:
    """The right to train a cell."""

    analysis_id: str
    number: int
    attempt: int
    fence: int | None = None  # of the run that holds the analysis; none for a helper


class ToyCellRepository:
    """Every write locks the row of the analysis, and asks for a claim that stands: a late writer finds its own gone."""

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

    def finished_numbers(self, analysis_id: str) -> set[int]:
        """Which cells are finished."""
        query = select(ToyCellRow.number).where(ToyCellRow.analysis_id == analysis_id, ToyCellRow.result.is_not(None))
        return set(self.session.scalars(query))

    # -- beginning --

    def take(self, analysis_id: str, fence: int, *, cells: int, lease_seconds: float) -> CellClaim | None:
        """Begin the first of so many cells that no helper holds, for the run under this fence; or raise LeaseLost."""
        self._hold(analysis_id, fence)
        run_out = and_(ToyCellRow.lease_until < database_epoch(), is_settled(lease_seconds))
        free = or_(ToyCellRow.lease_until.is_(None), run_out)
        return self._begin(analysis_id, cells, free, fence=fence)

    def help(self, analysis_id: str, *, cells: int, lease_seconds: float) -> CellClaim | None:
        """Begin the first of so many cells that nobody holds and that failed no helper, while the analysis runs."""
        running = select(AnalysisRow.fence).where(AnalysisRow.id == analysis_id, AnalysisRow.status == Status.RUNNING)
        fence = self.session.scalar(running.with_for_update())
        if fence is None:
            return None
        free = and_(ToyCellRow.lease_until.is_(None), ToyCellRow.fence.is_distinct_from(fence))
        return self._begin(analysis_id, cells, free, lease_until=database_epoch() + lease_seconds)

    def _begin(self, analysis_id: str, cells: int, free: ColumnElement[bool], **values: Any) -> CellClaim | None:
        query = select(ToyCellRow.number, and_(ToyCellRow.result.is_(None), free)).where(
            ToyCellRow.analysis_id == analysis_id
        )
        begun = {number: bool(is_free) for number, is_free in self.session.execute(query)}
        number = next((number for number in range(cells) if begun.get(number, True)), None)
        if number is None:
            return None
        values = {"fence": None} | values
        first = insert(self.session, ToyCellRow).values(analysis_id=analysis_id, number=number, attempts=1, **values)
        attempt = self.session.execute(
            first.on_conflict_do_update(
                index_elements=["analysis_id", "number"], set_={"attempts": ToyCellRow.attempts + 1, **values}
            ).returning(ToyCellRow.attempts)
        ).scalar_one()
        return CellClaim(analysis_id, number, attempt, values["fence"])

    # -- a helper's lease --

    def owns(self, claim: CellClaim) -> bool:
        """Whether a helper's claim still stands."""
        query = select(ToyCellRow.number).join(AnalysisRow, AnalysisRow.id == ToyCellRow.analysis_id)
        return self.session.scalar(query.where(*_claimed(claim), AnalysisRow.status.in_(LIVE))) is not None

    def renew(self, claim: CellClaim, *, lease_seconds: float) -> bool:
        """Keep a helper's claim; False if it is gone."""
        return self._write(claim, lease_until=database_epoch() + lease_seconds)

    def give_back(self, claim: CellClaim) -> bool:
        """End a helper's claim though nothing failed: anybody may begin the cell."""
        return self._write(claim, lease_until=None)

    def leave(self, claim: CellClaim) -> bool:
        """End the claim of a helper that failed: the run that holds the analysis tries the cell, and nobody else."""
        return self._write(claim, lease_until=0.0)

    # -- the end --

    def finish(self, claim: CellClaim, result: dict[str, Any], *, name: str, file: StoredFile) -> None:
        """Keep what a cell showed, with its file, or raise LeaseLost. Repeated after an unclear commit it does nothing.

        A finished cell shows that the analysis is not what takes workers down: its deliveries are counted anew.
        """
        self._hold(claim.analysis_id, claim.fence)
        found = self.session.execute(select(ToyCellRow.result.is_(None)).where(*_claimed(claim))).scalar()
        if found is None:
            raise LeaseLost(
                f"cell {claim.number} of analysis {claim.analysis_id} is no longer trained by attempt {claim.attempt}"
            )
        if not found:
            return
        self._write(claim, result=result, lease_until=None)
        self.session.add(FileRow(analysis_id=claim.analysis_id, name=name, **vars(file)))
        running = (AnalysisRow.id == claim.analysis_id, AnalysisRow.status == Status.RUNNING)
        self.session.execute(update(AnalysisRow).where(*running).values(deliveries=1))

    def _write(self, claim: CellClaim, **values: Any) -> bool:
        unfinished = update(ToyCellRow).where(*_claimed(claim), ToyCellRow.result.is_(None))
        changed = unfinished.values(**values).returning(ToyCellRow.number)
        return self.session.execute(changed.execution_options(synchronize_session=False)).scalar() is not None

    def _hold(self, analysis_id: str, fence: int | None) -> None:
        """Lock the analysis: under the fence of its run, or for a helper, whatever its run."""
        wanted: tuple[ColumnElement[bool], ...] = (AnalysisRow.status.in_(LIVE),)
        if fence is not None:
            wanted = (AnalysisRow.status == Status.RUNNING, AnalysisRow.fence == fence)
        held = select(AnalysisRow.id).where(AnalysisRow.id == analysis_id, *wanted)
        if self.session.scalar(held.with_for_update()) is None:
            raise LeaseLost(f"analysis {analysis_id} is over, or no longer run under fence {fence}")


def _claimed(claim: CellClaim) -> tuple[ColumnElement[bool], ...]:
    return (
        ToyCellRow.analysis_id == claim.analysis_id,
        ToyCellRow.number == claim.number,
        ToyCellRow.attempts == claim.attempt,
    )
