"""The message that runs an analysis, and the queues on which it waits: names only, so that senders import no worker."""

from typing import Any, Literal

Priority = Literal["interactive", "batch"]
Device = Literal["cpu", "cuda"]

PRIORITIES: tuple[Priority, ...] = ("interactive", "batch")
FAILURE_TTL_SECONDS = 300  # results and failures live in SQL; Redis keeps a crash just long enough to look at it


def queue_for(priority: str, device: str | None) -> str:
    """The queue of analyses with this priority that need this device, or no particular one."""
    return f"gramian-{device or 'any'}-{priority}"


def served_queues(*, cuda: bool) -> list[str]:
    """The queues that a worker takes from, most urgent first; one with a GPU serves what needs none as well."""
    devices = ("cuda", None, "cpu") if cuda else (None, "cpu")
    return [queue_for(priority, device) for priority in PRIORITIES for device in devices]


def message(analysis_id: str, *, timeout_seconds: int) -> dict[str, Any]:
    """What RQ's `enqueue_call` is called with."""
    return {
        "func": "workers.jobs.run_analysis",
        "args": (analysis_id,),
        "job_id": analysis_id,
        "timeout": timeout_seconds,
        "result_ttl": 0,
        "failure_ttl": FAILURE_TTL_SECONDS,
        "description": analysis_id,
    }
