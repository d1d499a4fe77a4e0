"""The loop that loses nothing: what waits without a message is pushed, what crashed is pushed again or buried."""

import logging
import signal
import sys
import threading

from redis import RedisError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.lifetime import end_with_parent
from gramian.settings import Settings
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from workers.failures import worker_died
from workers.logs import log_to_stderr
from workers.queue import connect, is_waiting, open_queue, push

log = logging.getLogger("gramian.reconcile")


def reconcile(engine: Engine, redis_url: str, settings: Settings) -> int:
    """One round; returns how many messages were sent."""
    sent = 0
    with connect(redis_url) as connection:
        queue = open_queue(connection)
        with UnitOfWork(engine) as uow:
            uow.hold("reconcile")
            attended = []
            for analysis in uow.analyses.unattended(seconds=settings.lease_seconds):
                if analysis.status == "running" and analysis.deliveries >= settings.max_deliveries:
                    if uow.analyses.bury(analysis.id, analysis.fence, worker_died(analysis.deliveries)):
                        log.warning("analysis %s took its process down %d times", analysis.id, analysis.deliveries)
                    continue
                if not is_waiting(queue, analysis.id):
                    push(queue, analysis.id, settings=settings)
                    sent += 1
                attended.append(analysis.id)
            uow.analyses.mark_pushed(attended)
            uow.idempotency.forget()
    return sent


def main() -> None:
    """Reconcile until SIGTERM or SIGINT, or until the worker that started this is gone."""
    end_with_parent(int(sys.argv[1]))
    settings = Settings()
    log_to_stderr(settings.log_level)
    if settings.redis_url is None:
        raise SystemExit("set GRAMIAN_REDIS_URL: there is nothing to push to")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    engine = open_engine(settings.sqlalchemy_url)
    while True:
        try:
            if sent := reconcile(engine, settings.redis_url, settings):
                log.info("pushed %d analyses again", sent)
        except (SQLAlchemyError, RedisError) as error:
            log.warning("could not reconcile just now: %s", type(error).__name__)
        if stop.wait(settings.reconcile_seconds):
            break
    engine.dispose()


if __name__ == "__main__":
    main()
