"""The loop that loses nothing: what waits without a message is pushed, what crashed is pushed again or buried."""

import logging
import signal
import sys
import threading
import time

from redis import Redis, RedisError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian import logs
from gramian.analyses import Status
from gramian.lifetime import end_with_parent
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage import retention
from gramian.storage.engine import open_engine
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from workers.artifacts import sweep_artifacts
from workers.failures import worker_died
from workers.queue import connect, push, waiting_ids
from workers.spool import sweep_spool

log = logging.getLogger("gramian.reconcile")

ARTIFACTS_SWEPT_SECONDS = 600.0  # a walk through all files that analyses made: seldom


def reconcile(engine: Engine, connection: Redis, settings: Settings) -> int:
    """One round; returns how many messages were sent."""
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        if not uow.jobs.unattended(lease_seconds=settings.lease_seconds, limit=1):
            return 0
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.hold("reconcile")  # one leader at a time
        found = uow.jobs.unattended(lease_seconds=settings.lease_seconds)
        wanted = [analysis for analysis in found if not _buried(uow, analysis, settings)]
        there = waiting_ids(connection)
        for analysis in wanted:
            if analysis.id not in there:
                push(connection, analysis, timeout_seconds=settings.job_timeout_seconds)
        uow.jobs.mark_pushed([analysis.id for analysis in wanted])
    return sum(analysis.id not in there for analysis in wanted)


def _buried(uow: UnitOfWork, analysis: AnalysisRow, settings: Settings) -> bool:
    """Whether the analysis took its process down too often, and so has failed now."""
    if analysis.status != Status.RUNNING or analysis.deliveries < settings.max_deliveries:
        return False
    if uow.jobs.bury(analysis.id, analysis.fence, worker_died(analysis.deliveries)):
        log.warning("analysis %s took its process down %d times", analysis.id, analysis.deliveries)
    return True


def main() -> None:
    """Reconcile until SIGTERM or SIGINT, or until the worker that started this is gone."""
    end_with_parent(int(sys.argv[1]))
    settings = Settings()
    logs.configure(settings.log_level, settings.log_format)
    if settings.redis_url is None:
        raise SystemExit("set GRAMIAN_REDIS_URL: there is nothing to push to")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    engine = open_engine(settings.sqlalchemy_url)
    sweep_due = time.monotonic()
    with connect(settings.redis_url) as connection:
        while True:
            try:
                if sent := reconcile(engine, connection, settings):
                    log.info("pushed %d analyses again", sent)
                _tidy(engine, settings)
                if time.monotonic() >= sweep_due:
                    sweep_artifacts(engine, settings)
                    _forget(engine, settings)
                    sweep_due = time.monotonic() + ARTIFACTS_SWEPT_SECONDS
            except (SQLAlchemyError, RedisError) as error:
                log.warning("could not reconcile just now: %s", type(error).__name__)
            if stop.wait(settings.reconcile_seconds):
                break
    engine.dispose()


def _forget(engine: Engine, settings: Settings) -> None:
    swept = retention.sweep(engine, settings)
    if any(vars(swept).values()):
        log.info("retention deleted %s", ", ".join(f"{name}: {count}" for name, count in vars(swept).items() if count))


def _tidy(engine: Engine, settings: Settings) -> None:
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.idempotency.forget()
    sweep_spool(settings)


if __name__ == "__main__":
    main()
