"""Keeping a claim alive while its job runs, and ending the process when there is no more use in it."""

import contextvars
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.errors import LeaseLost
from gramian.settings import Settings
from gramian.storage.jobs import Claim
from gramian.storage.unit_of_work import UnitOfWork
from workers.failures import stalled, timed_out
from workers.finish import Answer, Release, store
from workers.outcomes import Ending
from workers.progress import Progress
from workers.signals import SignalPipe, signals_through_a_pipe

log = logging.getLogger("gramian.worker")

ABANDONED = 75  # exit code: this process stored no result
CHECK_SECONDS = 1.0  # how soon a run notices that it was cancelled or taken over
OVERTIME_SECONDS = 10.0  # RQ's own alarm comes first; it cannot interrupt a long call into a library


@contextmanager
def kept_lease(
    engine: Engine, claim: Claim, settings: Settings, progress: Progress, *, on_end: Callable[[Ending], None]
) -> Iterator[None]:
    """Renew the claim from a thread for as long as the block runs.

    The thread ends the whole process, whatever it computes, when the claim is gone (cancelled, or another's), when the
    worker stops, when nothing moves any more, and when the run takes too long. `on_end` hears why before.
    """
    with signals_through_a_pipe() as pipe:
        keeper = _Keeper(engine, claim, settings, progress, pipe, on_end)
        context = contextvars.copy_context()  # log lines of the thread carry the ids of the job
        thread = threading.Thread(target=context.run, args=(keeper.keep,), name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            keeper.is_done = True
            pipe.wake()
            thread.join()


class _Keeper:
    def __init__(
        self,
        engine: Engine,
        claim: Claim,
        settings: Settings,
        progress: Progress,
        pipe: SignalPipe,
        on_end: Callable[[Ending], None],
    ) -> None:
        self.is_done = False
        self._engine = engine
        self._claim = claim
        self._settings = settings
        self._progress = progress
        self._pipe = pipe
        self._on_end = on_end
        self._started = self._renewed = time.monotonic()

    def keep(self) -> None:
        interval = min(CHECK_SECONDS, self._settings.lease_seconds / 3)
        while True:
            stopping = self._pipe.wait(interval)
            if self.is_done:
                return
            if answer := self._reason_to_end(stopping):
                self._end_with(answer)
            try:
                owned = self._check()
            except SQLAlchemyError:  # no answer is not a refusal: go on, try again
                log.warning("analysis %s: the lease could not be renewed just now", self._claim.id)
                continue
            if not owned and not self.is_done:
                log.info("analysis %s: attempt %d is no longer wanted here", self._claim.id, self._claim.fence)
                self._exit(Ending.LEASE_LOST)

    def _reason_to_end(self, stopping: bool) -> Answer | None:
        now, limit = time.monotonic(), self._settings.job_timeout_seconds
        if stopping:
            return Release()
        if now - self._progress.moved > self._settings.stall_seconds:
            return stalled(self._settings.stall_seconds, self._claim, self._settings.max_failures)
        if now - self._started > limit + OVERTIME_SECONDS:
            return timed_out(limit)
        return None

    def _check(self) -> bool:
        """Whether the claim still stands; renews it when a third of its time is over."""
        claim, seconds = self._claim, self._settings.lease_seconds
        with UnitOfWork(self._engine, writes=False) as uow:
            owned = uow.jobs.owns(claim.id, claim.fence)
        if owned and time.monotonic() - self._renewed >= seconds / 3:
            with UnitOfWork(self._engine) as uow:
                owned = uow.jobs.renew(claim.id, claim.fence, lease_seconds=seconds)
            self._renewed = time.monotonic()
        return owned

    def _end_with(self, answer: Answer) -> None:
        """Write the end from here, since the main thread does not get to it."""
        try:
            store(self._engine, self._claim, answer)
        except LeaseLost:
            self._exit(Ending.LEASE_LOST)
        except SQLAlchemyError:
            log.warning("analysis %s: its end could not be stored, its lease will run out", self._claim.id)
        log.info("analysis %s: attempt %d ended early: %s", self._claim.id, self._claim.fence, answer)
        self._exit(Ending.of(answer))

    def _exit(self, ending: Ending) -> None:
        self._on_end(ending)
        os._exit(ABANDONED)
