"""The worker's side of Redis: connections, messages, and RQ without pickle."""

from redis import Redis
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from gramian.analyses import QUEUE, RUN_ANALYSIS
from gramian.settings import Settings

FAILURE_TTL_SECONDS = 300  # results and failures live in SQL; Redis keeps a crash just long enough to look at it


def connect(url: str) -> Redis:
    return Redis.from_url(url, health_check_interval=30)


def open_queue(connection: Redis) -> Queue:
    return Queue(QUEUE, connection=connection, serializer=JSONSerializer)


def push(queue: Queue, analysis_id: str, *, settings: Settings) -> None:
    """Send the id to the workers; a message that is there already is enough."""
    queue.enqueue_call(
        RUN_ANALYSIS,
        args=(analysis_id,),
        job_id=analysis_id,
        timeout=settings.job_timeout_seconds,
        result_ttl=0,
        failure_ttl=FAILURE_TTL_SECONDS,
        description=analysis_id,
    )


def is_waiting(queue: Queue, analysis_id: str) -> bool:
    """Whether the queue still holds a message for the analysis."""
    try:
        job = Job.fetch(analysis_id, connection=queue.connection, serializer=JSONSerializer)
    except NoSuchJobError:
        return False
    return job.get_status(refresh=False) == JobStatus.QUEUED and job.get_position() is not None
