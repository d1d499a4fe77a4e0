"""`python -m workers`: one RQ worker and its reconcile loop. The command line starts it by this name."""

import logging
import os
import platform
import subprocess
import sys
import time

import torch
from rq import SpawnWorker, Worker
from rq.serializers import JSONSerializer

from gramian.storage import schema
from workers import jobs, process
from workers.jobs import sweep_spool
from workers.logs import log_to_stderr
from workers.queue import connect, open_queue

log = logging.getLogger("gramian.worker")

SCHEMA_WAIT_SECONDS = 60


def main() -> None:
    settings = process.settings()
    log_to_stderr(settings.log_level)
    if settings.redis_url is None:
        sys.exit("gramian worker: set GRAMIAN_REDIS_URL, or run `gramian serve`, which has its own")
    if not _schema_arrives():
        sys.exit("gramian worker: the database is not at this version's schema; run `gramian migrate`")
    sweep_spool(settings)
    process.prepare()
    helper = subprocess.Popen([sys.executable, "-m", "workers.reconcile", str(os.getpid())])  # noqa: S603
    # torch and the job are imported before the fork, so that a job starts at once; nothing is computed here, since
    # threads do not survive a fork.
    log.debug("worker with torch %s runs %s", torch.__version__, jobs.run_analysis.__name__)
    connection = connect(settings.redis_url)
    worker_class = SpawnWorker if platform.system() == "Darwin" else Worker  # fork and Accelerate do not mix
    worker = worker_class([open_queue(connection)], connection=connection, serializer=JSONSerializer)
    worker.log_job_description = False
    worker.work(logging_level="WARNING")
    helper.terminate()
    helper.wait()


def _schema_arrives() -> bool:
    """Wait for whoever migrates; workers and service often start together."""
    for _ in range(SCHEMA_WAIT_SECONDS):
        if schema.is_current(process.engine()):
            return True
        time.sleep(1)
    return False


if __name__ == "__main__":
    main()
