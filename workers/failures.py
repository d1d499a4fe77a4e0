"""Why a run ended without a result, as it is stored on the analysis."""

import random
from collections.abc import Sequence
from typing import Any

from gramian.errors import GramianError
from workers.finish import Failure, Postponement

FIRST_DELAY_SECONDS = 5.0
LONGEST_DELAY_SECONDS = 600.0


def postponed(
    failures: int, failure: Failure, *, max_failures: int, seconds: float | None = None
) -> Postponement | Failure:
    """A transient failure is tried again, but not for ever.

    After `seconds` if the other side asked for that, else after a doubling wait, with jitter against stampedes.
    """
    if failures + 1 >= max_failures:
        return failure
    wanted = seconds if seconds is not None else FIRST_DELAY_SECONDS * 2**failures
    return Postponement(min(wanted, LONGEST_DELAY_SECONDS) * random.uniform(1.0, 1.25), failure)  # noqa: S311  (no secret)


def described(error: GramianError) -> Failure:
    """The facts of an error: a problem document without what only HTTP knows."""
    facts: dict[str, Any] = {"code": error.code, "title": error.title, "detail": error.message, "hint": error.hint}
    candidates: Sequence[str] | None = getattr(error, "candidates", None)
    if candidates:
        facts["candidates"] = list(candidates)
    return facts


def timed_out(seconds: int) -> Failure:
    return {
        "code": "timed_out",
        "title": "The analysis ran too long",
        "detail": f"it was stopped after {seconds} s",
        "hint": "the operator's limit is GRAMIAN_JOB_TIMEOUT_SECONDS",
    }


def stalled(seconds: float, failures: int, max_failures: int) -> Postponement | Failure:
    failure = {
        "code": "stalled",
        "title": "The analysis stood still",
        "detail": f"it made no progress for {seconds:g} s",
        "hint": "the worker's log tells its last stage; the operator's limit is GRAMIAN_STALL_SECONDS",
    }
    return postponed(failures, failure, max_failures=max_failures)


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
    "detail": "the analysis needs more memory than this worker has",
    "hint": 'run it on a worker with more memory, or on the CPU ("device": "cpu"): an embedding needs several '
    "float64 matrices of d×d, a packing several of k×d",
}

DEFECT: Failure = {
    "code": "internal_error",
    "title": "The analysis failed unexpectedly",
    "detail": "an error inside Gramian ended the analysis; the worker's log has its trace",
    "hint": "please report it with the analysis id",
}
