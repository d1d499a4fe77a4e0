"""The worker's side of Redis: connections, messages, and RQ without pickle."""

import logging
from collections.abc import Iterable
from itertools import chain
from secrets import token_hex

from redis import Redis, RedisError
from rq import Queue
from rq.serializers import JSONSerializer

from gramian.analyses import Status
from gramian.queues import Device, help_message, help_prefix, message, queue_for, served_queues
from gramian.settings import Settings
from gramian.storage.tables import AnalysisRow

log = logging.getLogger("gramian.worker")

LONGEST_SILENCE_SECONDS = 30
MOST_CALLS = 8  # for help with one analysis, that wait at once
ANSWER_SECONDS = 5  # a run that asks for help waits no longer for the queue


def connect(url: str) -> Redis:
    return Redis.from_url(url, health_check_interval=LONGEST_SILENCE_SECONDS)


def open_queues(connection: Redis, names: Iterable[str]) -> list[Queue]:
    return [Queue(name, connection=connection, serializer=JSONSerializer) for name in names]


def push(connection: Redis, analysis: AnalysisRow, *, timeout_seconds: int) -> None:
    """Send the id to the workers that serve it; a message that is there already is enough.

    What ran and lost its process has waited its turn: it goes to the front.
    """
    (queue,) = open_queues(connection, [queue_for(analysis.priority, analysis.required_device)])
    has_run = analysis.status == Status.RUNNING
    queue.enqueue_call(**message(analysis.id, timeout_seconds=timeout_seconds), at_front=has_run)


def waiting_ids(connection: Redis) -> set[str]:
    """The analyses that any queue holds a message for."""
    queues = open_queues(connection, served_queues(cuda=True))
    return set(chain.from_iterable(queue.get_job_ids() for queue in queues))


def ask_for_help(settings: Settings, analysis_id: str, device: Device, *, helpers: int) -> None:
    """Call for so many helpers, unless enough calls wait already; a queue that does not answer brings no help."""
    if settings.redis_url is None or helpers < 1:
        return
    prefix = help_prefix(analysis_id)
    try:
        with Redis.from_url(
            settings.redis_url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
        ) as connection:
            (queue,) = open_queues(connection, [queue_for("batch", device)])
            waiting = sum(waiting_id.startswith(prefix) for waiting_id in queue.get_job_ids())
            for _ in range(min(helpers, MOST_CALLS - waiting)):
                asked = help_message(analysis_id, device, token_hex(4), timeout_seconds=settings.job_timeout_seconds)
                queue.enqueue_call(**asked)
    except RedisError as error:
        log.warning("analysis %s: no help was asked for (%s)", analysis_id, type(error).__name__)
