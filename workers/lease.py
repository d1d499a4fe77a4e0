"""Keeping a claim alive while its job runs."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.storage.unit_of_work import UnitOfWork

log = logging.getLogger("gramian.worker")


@contextmanager
def kept_lease(engine: Engine, analysis_id: str, fence: int, *, seconds: float) -> Iterator[None]:
    """Renew the claim from a thread for as long as the block runs."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(seconds / 3):
            try:
                with UnitOfWork(engine) as uow:
                    if not uow.analyses.renew(analysis_id, fence, lease_seconds=seconds):
                        return  # another's now: the fence refuses this run's result when it comes
            except SQLAlchemyError:  # no answer is not a refusal: go on, try again
                log.warning("analysis %s: the lease could not be renewed just now", analysis_id, exc_info=True)

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
