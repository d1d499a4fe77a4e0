"""How far a run is, written to the row no more often than anybody looks."""

import logging
import time

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.errors import LeaseLost
from gramian.storage.unit_of_work import UnitOfWork

INTERVAL_SECONDS = 0.5

log = logging.getLogger("gramian.worker")


class Progress:
    """Called with a stage, the fraction of the whole that is done, and words; also times the stages."""

    def __init__(self, engine: Engine, analysis_id: str, fence: int) -> None:
        self._engine = engine
        self._analysis_id = analysis_id
        self._fence = fence
        self._written = self._entered = time.perf_counter()
        self._stage: str | None = None
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: str, fraction: float, message: str) -> None:
        now = time.perf_counter()
        if stage != self._stage:
            self.close()
            self._stage, self._entered = stage, now
        if now - self._written < INTERVAL_SECONDS:
            return
        self._written = now
        try:
            with UnitOfWork(self._engine) as uow:
                owned = uow.analyses.report(
                    self._analysis_id, self._fence, stage=stage, fraction=min(fraction, 1.0), message=message
                )
        except SQLAlchemyError:
            log.warning("analysis %s: progress could not be written just now", self._analysis_id)
            return
        if not owned:
            raise LeaseLost(f"analysis {self._analysis_id} is no longer run under fence {self._fence}")

    def close(self) -> None:
        """End the current stage's clock."""
        if self._stage is not None:
            spent = time.perf_counter() - self._entered
            self.seconds[self._stage] = round(self.seconds.get(self._stage, 0.0) + spent, 6)
            self._stage = None
