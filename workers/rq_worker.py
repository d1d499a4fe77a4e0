"""The RQ worker: its queues, its stop, and what it learns of each child's end."""

import logging
import os
import platform
import signal
import threading
import time
from collections.abc import Callable

from redis import Redis
from rq import Queue, SpawnWorker, Worker
from rq.job import Job
from rq.serializers import JSONSerializer

from workers import process
from workers.outcomes import Ending
from workers.queue import open_queues

log = logging.getLogger("gramian.worker")

# fork and Accelerate do not mix; a spawned child shares no memory, so its worker does not learn how it ended
_Base: type[Worker] = SpawnWorker if platform.system() == "Darwin" else Worker

Watch = Callable[[str, float], None]  # told how a child ended, and after how many seconds


class AnalysisWorker(_Base):  # type: ignore[misc,valid-type]
    """Runs one analysis at a time, each in a child of its own."""

    max_connection_wait_time = 2  # seconds between looks for a Redis that is away

    def __init__(self, queues: list[str], connection: Redis, *, stop_seconds: float, watch: Watch) -> None:
        super().__init__(open_queues(connection, queues), connection=connection, serializer=JSONSerializer)
        self.log_job_description = False
        self.is_stopping = False
        self._stop_seconds = stop_seconds
        self._watch = watch

    def execute_job(self, job: Job, queue: Queue) -> None:
        process.ENDING.set(Ending.NOTHING_TO_DO)
        started = time.monotonic()
        try:
            super().execute_job(job, queue)
        finally:
            ending = process.ENDING.get()
            stopped = ending is Ending.CRASHED and self._stopped_job_id == job.id
            self._watch("cancelled" if stopped else ending.name.lower(), time.monotonic() - started)

    def handle_warm_shutdown_request(self) -> None:
        """At SIGTERM: let the job at hand end in its time; then ask it to give itself back to the queue."""
        self.is_stopping = True
        timer = threading.Timer(self._stop_seconds, self._ask_to_release)
        timer.daemon = True
        timer.start()

    def _ask_to_release(self) -> None:
        if self.horse_pid:
            log.info("the job is not done after %g s, it goes back to the queue", self._stop_seconds)
            os.kill(self.horse_pid, signal.SIGTERM)
