"""The RQ worker: its queues, its stop, and what it learns of each child's end."""

import logging
import os
import platform
import signal
import threading
import time
from typing import Any

from redis import Redis, RedisError
from rq import Queue, SpawnWorker, Worker
from rq.executions import Execution
from rq.job import Job
from rq.serializers import JSONSerializer
from structlog.contextvars import bound_contextvars

from workers import process
from workers.metrics import CANCELLED, WorkerMetrics
from workers.outcomes import Ending
from workers.queue import open_queues

log = logging.getLogger("gramian.worker")

# fork and Accelerate do not mix; a spawned child shares no memory, so its worker does not learn how it ended
_Base: type[Worker] = SpawnWorker if platform.system() == "Darwin" else Worker


class AnalysisWorker(_Base):  # type: ignore[misc,valid-type]
    """Runs one analysis at a time, each in a child of its own."""

    max_connection_wait_time = 2  # seconds between looks for a Redis that is away

    def __init__(self, queues: list[str], connection: Redis, *, stop_seconds: float, metrics: WorkerMetrics) -> None:
        super().__init__(open_queues(connection, queues), connection=connection, serializer=JSONSerializer)
        self.log_job_description = False
        self.is_stopping = False
        self._stop_seconds = stop_seconds
        self._metrics = metrics
        self._was_cancelled = False

    def execute_job(self, job: Job, queue: Queue) -> None:
        process.ending().set(Ending.NOTHING_TO_DO)
        self._was_cancelled = False
        started = time.monotonic()
        self._metrics.started()
        with bound_contextvars(analysis_id=job.id):  # on the worker's lines about the job; the child inherits it
            try:
                super().execute_job(job, queue)
            finally:
                self._note(time.monotonic() - started)

    def handle_job_failure(self, job: Job, *args: Any, **kwargs: Any) -> None:
        """What RQ does for a child that left no word; in doing so it forgets that the child was ended by order."""
        self._was_cancelled = self._stopped_job_id == job.id
        super().handle_job_failure(job, *args, **kwargs)

    def _note(self, seconds: float) -> None:
        ending = process.ending().get()
        # a cancelled child may have seen that its claim is gone before the order to end it came
        cancelled = self._was_cancelled and ending in (Ending.CRASHED, Ending.LEASE_LOST)
        outcome = CANCELLED if cancelled else ending.name.lower()
        self._metrics.finished(outcome, seconds)
        log.debug("a child ended: %s after %.3f s", outcome, seconds)

    def handle_warm_shutdown_request(self) -> None:
        """At SIGTERM: let the job at hand end in its time; then ask it to give itself back to the queue."""
        self.is_stopping = True
        timer = threading.Timer(self._stop_seconds, self._ask_to_release)
        timer.daemon = True
        timer.start()

    def set_shutdown_requested_date(self) -> None:
        """Not told to Redis: it may be away, and an error here would end the worker's watch over its child."""

    def maintain_heartbeats(self, job: Job, execution: Execution) -> None:
        try:
            super().maintain_heartbeats(job, execution)
        except RedisError as error:  # the child goes on, and so does its watch
            log.warning("no heartbeat: Redis is away (%s)", type(error).__name__)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:  # where Redis is away, RQ would leave the thread that listens for commands behind
            if self.pubsub_thread:
                self.pubsub_thread.stop()

    def _ask_to_release(self) -> None:
        if self.horse_pid:
            log.info("the job is not done after %g s, it goes back to the queue", self._stop_seconds)
            os.kill(self.horse_pid, signal.SIGTERM)
