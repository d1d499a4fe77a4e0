"""Keeping a claim alive while its work goes on, and ending the process when there is no more use in it."""

import contextvars
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.errors import LeaseLost
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage.jobs import Claim
from gramian.storage.unit_of_work import UnitOfWork
from workers.failures import stalled, timed_out
from workers.finish import Answer, Release, store
from workers.outcomes import Ending
from workers.signals import SignalPipe, signals_through_a_pipe

log = logging.getLogger("gramian.worker")

ABANDONED = 75  # exit code: this process stored no result
CHECK_SECONDS = 1.0  # how soon a run notices that it was cancelled or taken over
OVERTIME_SECONDS = 10.0  # RQ's own alarm comes first; it cannot interrupt a long call into a library


class Hold(Protocol):
    """What a process holds a claim on; its text names it in the log."""

    @property
    def failures(self) -> int:
        """Transient errors so far."""

    def stands(self) -> bool:
        """Whether the claim is still this process's."""

    def renew(self, *, lease_seconds: float) -> bool:
        """Keep it; False if it is gone."""

    def end(self, answer: Answer) -> None:
        """Write down how the work ended, or raise LeaseLost."""


class Moving(Protocol):
    moved: float  # when there was a sign of life, by `time.monotonic`


@dataclass(frozen=True)
class AnalysisHold:
    """The claim of a run on its analysis."""

    engine: Engine
    claim: Claim

    def __str__(self) -> str:
        return f"analysis {self.claim.id}, attempt {self.claim.fence}"

    @property
    def failures(self) -> int:
        return self.claim.failures

    def stands(self) -> bool:
        with UnitOfWork(self.engine, project=EVERY, writes=False) as uow:
            return uow.jobs.owns(self.claim.id, self.claim.fence)

    def renew(self, *, lease_seconds: float) -> bool:
        with UnitOfWork(self.engine, project=EVERY) as uow:
            return uow.jobs.renew(self.claim.id, self.claim.fence, lease_seconds=lease_seconds)

    def end(self, answer: Answer) -> None:
        store(self.engine, self.claim, answer)


@contextmanager
def kept_lease(hold: Hold, settings: Settings, progress: Moving, *, on_end: Callable[[Ending], None]) -> Iterator[None]:
    """Renew the claim from a thread for as long as the block runs.

    The thread ends the whole process, whatever it computes, when the claim is gone (cancelled, or another's), when the
    worker stops, when nothing moves any more, and when the run takes too long. `on_end` hears why before.
    """
    with signals_through_a_pipe() as pipe:
        keeper = _Keeper(hold, settings, progress, pipe, on_end)
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
        hold: Hold,
        settings: Settings,
        progress: Moving,
        pipe: SignalPipe,
        on_end: Callable[[Ending], None],
    ) -> None:
        self.is_done = False
        self._hold = hold
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
                log.warning("%s: the lease could not be renewed just now", self._hold)
                continue
            if not owned and not self.is_done:
                log.info("%s: no longer wanted here", self._hold)
                self._exit(Ending.LEASE_LOST)

    def _reason_to_end(self, stopping: bool) -> Answer | None:
        now, limit = time.monotonic(), self._settings.job_timeout_seconds
        if stopping:
            return Release()
        if now - self._progress.moved > self._settings.stall_seconds:
            return stalled(self._settings.stall_seconds, self._hold.failures, self._settings.max_failures)
        if now - self._started > limit + OVERTIME_SECONDS:
            return timed_out(limit)
        return None

    def _check(self) -> bool:
        """Whether the claim still stands; renews it when a third of its time is over."""
        seconds = self._settings.lease_seconds
        owned = self._hold.stands()
        if owned and time.monotonic() - self._renewed >= seconds / 3:
            owned = self._hold.renew(lease_seconds=seconds)
            self._renewed = time.monotonic()
        return owned

    def _end_with(self, answer: Answer) -> None:
        """Write the end from here, since the main thread does not get to it."""
        try:
            self._hold.end(answer)
        except LeaseLost:
            self._exit(Ending.LEASE_LOST)
        except SQLAlchemyError:
            log.warning("%s: its end could not be stored, its lease will run out", self._hold)
        log.info("%s: ended early: %s", self._hold, answer)
        self._exit(Ending.of(answer))

    def _exit(self, ending: Ending) -> None:
        self._on_end(ending)
        os._exit(ABANDONED)
