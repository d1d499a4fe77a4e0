"""`python -m workers.webhooks PARENT`: sends webhooks, each in a thread of its own, until SIGTERM.

The rows are the queue: what is due lies in the database, may lie there for a day, and must outlive every process.
"""

import logging
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import stamina
from sqlalchemy import Engine
from sqlalchemy.exc import InternalError, OperationalError, SQLAlchemyError
from structlog.contextvars import bound_contextvars

from gramian import logs
from gramian.egress import Guard
from gramian.lifetime import end_with_parent
from gramian.projects import EVERY
from gramian.sealing import Seal
from gramian.settings import Settings
from gramian.storage.deliveries import Parcel
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from gramian.webhooks import judge, seconds_to_next
from workers.sending import Sender

log = logging.getLogger("gramian.webhooks")

THREADS = 16
IDLE_SECONDS = 0.5  # between looks for what is due
LEASE_SECONDS = 60.0  # longer than an attempt can take
STORE_SECONDS = 30.0  # what an attempt showed waits so long for a database that is away
TIDY_SECONDS = 600.0


class Deliverer:
    """Takes what is due, as long as a thread is free for it."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._sender = Sender(Guard(settings.webhook_networks), Seal(settings.sealing_key()))
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook")
        self._free = threading.Semaphore(THREADS)
        self._tidied = 0.0

    def run(self, stop: threading.Event) -> None:
        """Send until asked to stop; then let what is on its way arrive."""
        while not stop.is_set():
            try:
                while not stop.is_set() and self._start_next():
                    pass
                self._tidy()
            except SQLAlchemyError as error:
                log.warning("the database is away (%s), trying again", type(error).__name__)
            stop.wait(IDLE_SECONDS)
        self._threads.shutdown()

    def close(self) -> None:
        self._sender.close()

    def _start_next(self) -> bool:
        """Take one delivery and let a thread send it; False if there is none."""
        with UnitOfWork(self._engine, project=EVERY, writes=False) as uow:
            if not uow.deliveries.has_due():
                return False
        if not self._free.acquire(timeout=IDLE_SECONDS):
            return True  # all are busy: look again
        parcel: Parcel | None = None
        try:
            with UnitOfWork(self._engine, project=EVERY) as uow:
                parcel = uow.deliveries.claim(lease_seconds=LEASE_SECONDS)
        finally:
            if parcel is None:
                self._free.release()
        if parcel is None:
            return False
        self._threads.submit(self._deliver, parcel).add_done_callback(lambda _: self._free.release())
        return True

    def _deliver(self, parcel: Parcel) -> None:
        with bound_contextvars(delivery_id=parcel.id, endpoint_id=parcel.endpoint_id):
            try:
                self._attempt(parcel)
            except Exception:  # the thread's edge: the lease runs out and the attempt is made again
                log.exception("delivery %s failed unexpectedly", parcel.id)

    def _attempt(self, parcel: Parcel) -> None:
        answer = self._sender.send(parcel)
        verdict = judge(answer.attempt.response_status)
        wait = seconds_to_next(
            parcel.tries + 1,
            schedule=self._settings.webhook_schedule,
            asked=answer.retry_after,
            jitter=random.random(),  # noqa: S311  (no secret)
        )
        for write in stamina.retry_context(on=(OperationalError, InternalError), attempts=None, timeout=STORE_SECONDS):
            with write, UnitOfWork(self._engine, project=EVERY) as uow:
                uow.deliveries.conclude(
                    parcel, answer.attempt, verdict, next_seconds=wait, pause_days=self._settings.webhook_pause_days
                )
        found = answer.attempt.response_status or (answer.attempt.error or {}).get("code")
        log.info("%s: %s (%s)", parcel.type, verdict.value, found)

    def _tidy(self) -> None:
        if time.monotonic() < self._tidied + TIDY_SECONDS:
            return
        before = datetime.now(UTC) - timedelta(days=self._settings.retain_deliveries_days)
        with UnitOfWork(self._engine, project=EVERY) as uow:
            uow.deliveries.forget(before=before)
        self._tidied = time.monotonic()


def main() -> None:
    """Send webhooks until SIGTERM or SIGINT, or until the process that started this is gone."""
    end_with_parent(int(sys.argv[1]))
    settings = Settings()
    logs.configure(settings.log_level, settings.log_format)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    engine = open_engine(settings.sqlalchemy_url)
    deliverer = Deliverer(engine, settings)
    deliverer.run(stop)
    deliverer.close()
    engine.dispose()


if __name__ == "__main__":
    main()
