"""Helping with a toy-model sweep that another run holds: cells that nobody trains, each under a lease of its own.

Nobody counts the workers: who takes a message and finds nothing to do ends, and a lost message costs only time. A
helper tells the run nothing but finished cells. What fails here is left to the run that holds the analysis: it tries
the cell itself, and fails in its own name.
"""

import logging
import time

import stamina
from sqlalchemy import Engine
from sqlalchemy.exc import InternalError, OperationalError
from structlog.contextvars import bind_contextvars

from gramian.errors import GramianError, LeaseLost
from gramian.projects import EVERY
from gramian.queues import Device
from gramian.settings import Settings
from gramian.specs import parse_spec
from gramian.storage.toy_cells import CellClaim
from gramian.storage.unit_of_work import UnitOfWork
from gramian.toy_specs import ToyModelSpec
from workers import process
from workers.devices import choose_device
from workers.finish import STORE_SECONDS, Answer, Release
from workers.lease import kept_lease
from workers.outcomes import Ending
from workers.queue import ask_for_help
from workers.toy_cell import train_cell

log = logging.getLogger("gramian.worker")

TURN_SECONDS = 30.0  # then whatever waits goes first, between two cells


def help_analysis(analysis_id: str, device: Device) -> None:
    """Train cells of the sweep on this kind of device for as long as some are free; do nothing if none is."""
    bind_contextvars(analysis_id=analysis_id)
    engine, settings = process.engine(), process.settings()
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        spec = parse_spec(uow.analyses.get(analysis_id).spec)
    if not isinstance(spec, ToyModelSpec):
        log.warning("analysis %s is not one that can be helped with", analysis_id)
        return
    hold = _CellHold(engine, settings)
    started = time.monotonic()
    cells = list(spec.cells())
    with kept_lease(hold, settings, hold, on_end=process.ending().set):
        try:
            while claim := hold.take(analysis_id, len(cells)):
                process.ending().set(Ending.CRASHED)
                log.info("%s begins", hold)
                used = choose_device(settings, required=device)
                train_cell(engine, settings, claim, cells[claim.number], device=used, progress=hold.beat)
                process.ending().set(Ending.SUCCEEDED)
                if time.monotonic() - started > TURN_SECONDS:
                    ask_for_help(settings, analysis_id, device, helpers=1)
                    break
        except LeaseLost:
            log.info("%s is no longer wanted here, nothing is kept", hold)
            process.ending().set(Ending.LEASE_LOST)
        except Exception as error:  # noqa: BLE001  (the run that holds the analysis meets it again, and tells)
            failure = error.message if isinstance(error, GramianError) else f"{type(error).__name__}: {error}"
            log.warning("%s failed, it is left to the run of the analysis: %s", hold, failure)
            hold.leave()
            process.ending().set(Ending.FAILED)


class _CellHold:
    """The claim of a helper on the cell that it trains, if it does."""

    failures = 0  # an error of a helper is no failure of the analysis

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._lease_seconds = engine, settings.lease_seconds
        self._claim: CellClaim | None = None
        self.moved = time.monotonic()

    def __str__(self) -> str:
        if self._claim is None:
            return "help with a sweep"
        return f"cell {self._claim.number} of analysis {self._claim.analysis_id}, attempt {self._claim.attempt}"

    def take(self, analysis_id: str, cells: int) -> CellClaim | None:
        """Claim a cell instead of the one before, which is finished."""
        self._claim = None
        with UnitOfWork(self._engine, project=EVERY) as uow:
            claim = uow.toy_cells.help(analysis_id, cells=cells, lease_seconds=self._lease_seconds)
        self._claim = claim
        self.moved = time.monotonic()
        return claim

    def beat(self, step: int) -> None:  # noqa: ARG002  (the run that holds the analysis tells of steps)
        self.moved = time.monotonic()

    def stands(self) -> bool:
        if (claim := self._claim) is None:
            return True
        with UnitOfWork(self._engine, project=EVERY, writes=False) as uow:
            return uow.toy_cells.owns(claim)

    def renew(self, *, lease_seconds: float) -> bool:
        if (claim := self._claim) is None:
            return True
        with UnitOfWork(self._engine, project=EVERY) as uow:
            uow.toy_cells.renew(claim, lease_seconds=lease_seconds)
            return uow.toy_cells.owns(claim)

    def end(self, answer: Answer) -> None:
        if isinstance(answer, Release):
            self._give_back()
        else:
            self.leave()

    @stamina.retry(on=(OperationalError, InternalError), attempts=None, timeout=STORE_SECONDS)
    def _give_back(self) -> None:
        if claim := self._claim:
            with UnitOfWork(self._engine, project=EVERY) as uow:
                uow.toy_cells.give_back(claim)

    @stamina.retry(on=(OperationalError, InternalError), attempts=None, timeout=STORE_SECONDS)
    def leave(self) -> None:
        """Let the run of the analysis try the cell."""
        if claim := self._claim:
            with UnitOfWork(self._engine, project=EVERY) as uow:
                uow.toy_cells.leave(claim)
