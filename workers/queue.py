"""The worker's side of Redis: connections, messages, and RQ without pickle."""

from collections.abc import Iterable
from itertools import chain

from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from gramian.analyses import Status
from gramian.queues import message, queue_for, served_queues
from gramian.storage.tables import AnalysisRow

LONGEST_SILENCE_SECONDS = 30


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
