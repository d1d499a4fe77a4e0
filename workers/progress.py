"""How far a run is, written to the row no more often than anybody looks."""

import logging
import time

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.errors import LeaseLost
from gramian.projects import EVERY
from gramian.storage.jobs import Claim, Step
from gramian.storage.unit_of_work import UnitOfWork

INTERVAL_SECONDS = 0.5
STEPS_A_RUN = 200  # about: a run of hours tells of itself less often, so that its events stay few
EARLIEST_ESTIMATE = 0.02  # of the whole: before that, the pace says nothing

log = logging.getLogger("gramian.worker")


class Progress:
    """Called with a stage, the fraction of the whole that is done, and words; also times the stages."""

    def __init__(self, engine: Engine, claim: Claim) -> None:
        self._engine = engine
        self._claim = claim
        self._started = self._written = self._entered = time.perf_counter()
        self._stage: str | None = None
        self._before = 0.0  # of the whole, done by earlier attempts: says nothing about the pace of this one
        self.seconds: dict[str, float] = {}
        self.moved = time.monotonic()  # when the run last gave a sign of life

    def __call__(
        self,
        stage: str,
        fraction: float,
        message: str,
        *,
        done: int | None = None,
        total: int | None = None,
        unit: str | None = None,
    ) -> None:
        self.moved = time.monotonic()
        now = time.perf_counter()
        if stage != self._stage:
            self.close()
            self._stage, self._entered = stage, now
        elapsed = now - self._started
        if now - self._written < max(INTERVAL_SECONDS, elapsed / STEPS_A_RUN):
            return
        self._written = now
        fraction = min(fraction, 1.0)
        here = fraction - self._before
        left = elapsed * (1 - fraction) / here if here >= EARLIEST_ESTIMATE * (1 - self._before) else None
        self._write(Step(stage, fraction, message, done, total, unit, left))

    def begin_at(self, fraction: float) -> None:
        """Say how much of the whole earlier attempts have done."""
        self._before = fraction

    def _write(self, step: Step) -> None:
        claim = self._claim
        try:
            with UnitOfWork(self._engine, project=EVERY) as uow:
                owned = uow.jobs.report(claim.id, claim.fence, step)
        except SQLAlchemyError:
            log.warning("analysis %s: progress could not be written just now", claim.id)
            return
        if not owned:
            raise LeaseLost(f"analysis {claim.id} is no longer run under fence {claim.fence}")

    def close(self) -> None:
        """End the current stage's clock."""
        if self._stage is not None:
            spent = time.perf_counter() - self._entered
            self.seconds[self._stage] = round(self.seconds.get(self._stage, 0.0) + spent, 6)
            self._stage = None
