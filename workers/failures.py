"""Why a run ended without a result, as it is stored on the analysis."""

import random
from dataclasses import dataclass
from typing import Any

from gramian.errors import GramianError

Failure = dict[str, Any]

FIRST_DELAY_SECONDS = 5.0
LONGEST_DELAY_SECONDS = 600.0


@dataclass(frozen=True)
class Postponement:
    """A transient failure: the analysis is tried again after so many seconds."""

    seconds: float
    failure: Failure


def delay(failures: int, error: GramianError) -> float:
    """Seconds until the next attempt: what the Hub asked for, else doubling, with jitter against stampedes."""
    asked: float | None = getattr(error, "retry_after", None)
    seconds = asked if asked is not None else FIRST_DELAY_SECONDS * 2**failures
    return min(seconds, LONGEST_DELAY_SECONDS) * random.uniform(1.0, 1.25)  # noqa: S311  (no secret)


def described(error: GramianError) -> Failure:
    """The facts of an error: a problem document without what only HTTP knows."""
    facts: Failure = {"code": error.code, "title": error.title, "detail": error.message, "hint": error.hint}
    if candidates := getattr(error, "candidates", None):
        facts["candidates"] = list(candidates)
    return facts


def timed_out(seconds: int) -> Failure:
    return {
        "code": "timed_out",
        "title": "The analysis ran too long",
        "detail": f"it was stopped after {seconds} s",
        "hint": "the operator's limit is GRAMIAN_JOB_TIMEOUT_SECONDS",
    }


def worker_died(deliveries: int) -> Failure:
    return {
        "code": "worker_died",
        "title": "The analysis took its worker down",
        "detail": f"the process that ran it ended {deliveries} times without an answer",
        "hint": "the usual cause is memory: try a worker with more; the workers' logs name the signal",
    }


OUT_OF_MEMORY: Failure = {
    "code": "out_of_memory",
    "title": "The worker ran out of memory",
    "detail": "the matrix needs more memory than this worker has",
    "hint": "run it on a worker with more memory: several float64 matrices of d×d are held at once",
}

DEFECT: Failure = {
    "code": "internal_error",
    "title": "The analysis failed unexpectedly",
    "detail": "an error inside Gramian ended the analysis; the worker's log has its trace",
    "hint": "please report it with the analysis id",
}
