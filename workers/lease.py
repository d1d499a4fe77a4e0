"""Keeping a claim alive while its job runs."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.storage.unit_of_work import UnitOfWork

log = logging.getLogger("gramian.worker")


ABANDONED = 75  # exit code: nothing went wrong, nothing was stored
CHECK_SECONDS = 1.0  # how soon a run notices that it was cancelled or taken over


@contextmanager
def kept_lease(
    engine: Engine, analysis_id: str, fence: int, *, seconds: float, abandon: Callable[[], None]
) -> Iterator[None]:
    """Renew the claim from a thread for as long as the block runs.

    A claim that is gone, by a cancel or to another worker, ends the process at once, whatever it computes:
    `abandon` may clean up first.
    """
    done = threading.Event()

    def keep() -> None:
        renewed = time.monotonic()
        while not done.wait(min(CHECK_SECONDS, seconds / 3)):
            try:
                with UnitOfWork(engine, writes=False) as uow:
                    owned = uow.analyses.owns(analysis_id, fence)
                if owned and time.monotonic() - renewed >= seconds / 3:
                    with UnitOfWork(engine) as uow:
                        owned = uow.analyses.renew(analysis_id, fence, lease_seconds=seconds)
                    renewed = time.monotonic()
            except SQLAlchemyError:  # no answer is not a refusal: go on, try again
                log.warning("analysis %s: the lease could not be renewed just now", analysis_id)
                continue
            if not owned and not done.is_set():
                log.info("analysis %s: attempt %d is no longer wanted here, stopping", analysis_id, fence)
                abandon()
                os._exit(ABANDONED)

    thread = threading.Thread(target=keep, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
