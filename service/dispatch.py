"""Telling the workers that there is something to do."""

import logging

from redis import Redis, RedisError
from rq import Queue
from rq.command import send_stop_job_command
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.serializers import JSONSerializer

from gramian.queues import message, queue_for
from gramian.settings import Settings

log = logging.getLogger("gramian.service")


class Dispatcher:
    """Pushes analysis ids to the queue; the row is the truth, so a push that fails is made up for later."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise ValueError("the service needs GRAMIAN_REDIS_URL; `gramian serve` sets it to its own Valkey")
        self.redis = Redis.from_url(settings.redis_url, socket_timeout=5, socket_connect_timeout=5)
        self._timeout = settings.job_timeout_seconds

    def push(self, analysis_id: str, *, priority: str, device: str | None) -> None:
        queue = Queue(queue_for(priority, device), connection=self.redis, serializer=JSONSerializer)
        try:
            queue.enqueue_call(**message(analysis_id, timeout_seconds=self._timeout))
        except RedisError as error:
            log.warning("analysis %s: not pushed (%s), the reconcile loop will", analysis_id, type(error).__name__)

    def stop(self, analysis_id: str) -> None:
        """End the process that runs the analysis; if this does not reach it, it finds out by itself within a second."""
        try:
            send_stop_job_command(self.redis, analysis_id, serializer=JSONSerializer)
        except (RedisError, NoSuchJobError, InvalidJobOperation) as error:
            log.info("analysis %s: no stop command sent (%s)", analysis_id, type(error).__name__)

    def is_reachable(self) -> bool:
        try:
            return bool(self.redis.ping())
        except RedisError:
            return False

    def close(self) -> None:
        self.redis.close()
