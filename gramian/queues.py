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


def help_prefix(analysis_id: str) -> str:
    """How the ids of messages begin that ask for help with an analysis."""
    return f"{analysis_id}-help-"


def help_message(analysis_id: str, device: Device, name: str, *, timeout_seconds: int) -> dict[str, Any]:
    """The message that asks whoever is free to take part in an analysis that is running, on the same kind of device."""
    return message(analysis_id, timeout_seconds=timeout_seconds) | {
        "func": "workers.toy_help.help_analysis",
        "args": (analysis_id, device),
        "job_id": help_prefix(analysis_id) + name,
        "description": f"help with {analysis_id}",
    }
