"""Why a run ended without a result, as it is stored on the analysis."""

from typing import Any

from gramian.errors import GramianError

Failure = dict[str, Any]


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
