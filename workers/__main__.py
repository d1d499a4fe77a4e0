"""`python -m workers`: one RQ worker, its reconcile loop and a sender of webhooks.

The command line starts it by this name.
"""

import logging
import os
import signal
import sys
import time
from contextlib import ExitStack
from types import FrameType

import torch
from redis import RedisError
from rq.exceptions import StopRequested

from gramian import logs
from gramian.lifetime import kept_running
from gramian.queues import served_queues
from gramian.settings import Settings
from gramian.storage import schema
from workers import jobs, process
from workers.metrics import WorkerMetrics, served
from workers.queue import connect
from workers.rq_worker import AnalysisWorker

log = logging.getLogger("gramian.worker")

SCHEMA_WAIT_SECONDS = 60
RESTART_SECONDS = 1.0


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    settings = process.settings()
    logs.configure(settings.log_level, settings.log_format)
    if settings.redis_url is None:
        sys.exit("gramian worker: set GRAMIAN_REDIS_URL, or run `gramian serve`, which has its own")
    if not _schema_arrives():
        sys.exit("gramian worker: the database is not at this version's schema; run `gramian migrate`")
    process.prepare()
    # torch and the job are imported before the fork, so that a job starts at once; nothing is computed here, since
    # threads do not survive a fork.
    log.debug("worker with torch %s runs %s", torch.__version__, jobs.run_analysis.__name__)
    metrics = WorkerMetrics()
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            _serve(stack, metrics, settings.metrics_host, settings.metrics_port)
        stack.enter_context(kept_running("reconcile", [sys.executable, "-m", "workers.reconcile", str(os.getpid())]))
        stack.enter_context(kept_running("webhooks", [sys.executable, "-m", "workers.webhooks", str(os.getpid())]))
        _work(settings, settings.redis_url, metrics)


def _serve(stack: ExitStack, metrics: WorkerMetrics, host: str, port: int) -> None:
    try:
        stack.enter_context(served(metrics, host, port))
    except OSError as error:
        sys.exit(f"gramian worker: cannot serve metrics on {host}:{port}: {error.strerror or error}")


def _work(settings: Settings, redis_url: str, metrics: WorkerMetrics) -> None:
    """Take jobs until SIGTERM. A worker that lost Redis in the middle of a job is followed by a new one."""
    queues = served_queues(cuda=_has_gpu(settings))
    while True:
        worker: AnalysisWorker | None = None
        try:
            with connect(redis_url) as connection:
                worker = AnalysisWorker(queues, connection, stop_seconds=settings.stop_seconds, metrics=metrics)
                worker.work(logging_level="WARNING")
        except RedisError as error:
            log.warning("Redis is away (%s), trying again", type(error).__name__)
        except StopRequested:  # SIGTERM while the worker put itself away
            return
        signal.signal(signal.SIGTERM, _leave)  # until the next one has its own way to stop
        if worker and worker.is_stopping:
            return
        time.sleep(RESTART_SECONDS)


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """SIGTERM while no job runs."""
    raise SystemExit(0)


def _has_gpu(settings: Settings) -> bool:
    """Whether jobs may compute on a GPU; asks the driver only, since CUDA once started does not survive a fork."""
    if settings.device == "auto":
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        return torch.cuda.is_available()
    return settings.device.startswith("cuda")


def _schema_arrives() -> bool:
    """Wait for whoever migrates; workers and service often start together."""
    for _ in range(SCHEMA_WAIT_SECONDS):
        if schema.is_current(process.engine()):
            return True
        time.sleep(1)
    return False


if __name__ == "__main__":
    main()
