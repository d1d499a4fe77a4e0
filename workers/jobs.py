"""One job, from the message to the stored result. Runs in a child process that RQ forks for it alone."""

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from rq.timeouts import JobTimeoutException
from structlog.contextvars import bind_contextvars

from gramian.errors import GramianError, LeaseLost
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.specs import Kind, parse_spec
from gramian.storage.jobs import Claim, Outcome
from gramian.storage.unit_of_work import UnitOfWork
from workers import process
from workers.embedding import measure_embedding
from workers.failures import DEFECT, OUT_OF_MEMORY, described, postponed, timed_out
from workers.finish import Answer, Release, store
from workers.lease import AnalysisHold, kept_lease
from workers.outcomes import Ending
from workers.packing import find_packing
from workers.progress import Progress
from workers.runs import Run, TurnOver
from workers.spool import spool_folder
from workers.toy_model import train_toy_models

log = logging.getLogger("gramian.worker")

KINDS: Mapping[Kind, Callable[[Run[Any]], Outcome]] = {
    "embedding": measure_embedding,
    "packing": find_packing,
    "toy_model": train_toy_models,
}


def run_analysis(analysis_id: str) -> None:
    """Claim the analysis and run it to an end; do nothing if somebody else has it."""
    bind_contextvars(analysis_id=analysis_id)
    engine, settings = process.engine(), process.settings()
    started = time.perf_counter()
    with UnitOfWork(engine, project=EVERY) as uow:
        claim = uow.jobs.claim(analysis_id, lease_seconds=settings.lease_seconds)
    if claim is None:
        log.info("analysis %s is not free, nothing to do", analysis_id)
        return
    process.ending().set(Ending.CRASHED)
    bind_contextvars(request_id=claim.request_id, attempt=claim.fence)
    log.info("analysis %s attempt %d begins", claim.id, claim.fence)
    spool = spool_folder(settings) / f"{claim.id}-{claim.fence}"
    progress = Progress(engine, claim)

    def end(ending: Ending) -> None:
        shutil.rmtree(spool, ignore_errors=True)
        process.ending().set(ending)

    with kept_lease(AnalysisHold(engine, claim), settings, progress, on_end=end):
        try:
            answer = _answer(claim, spool, progress, settings)
            store(engine, claim, answer)
            process.ending().set(Ending.of(answer))
        except LeaseLost:
            # Also what a repeated write finds after a commit whose answer was lost: the row then has this result.
            log.warning("analysis %s: attempt %d is over, it stores nothing", analysis_id, claim.fence)
            process.ending().set(Ending.LEASE_LOST)
    log.info("analysis %s attempt %d ended after %.3f s", analysis_id, claim.fence, time.perf_counter() - started)


def _answer(claim: Claim, spool: Path, progress: Progress, settings: Settings) -> Answer:
    try:
        return _run(claim, spool, progress, settings)
    except LeaseLost:
        raise
    except GramianError as failure:
        log.info("analysis %s failed: %s", claim.id, failure.message)
        if failure.transient:
            asked: float | None = getattr(failure, "retry_after", None)
            return postponed(claim.failures, described(failure), seconds=asked, max_failures=settings.max_failures)
        return described(failure)
    except JobTimeoutException:
        log.warning("analysis %s ran longer than %d s", claim.id, settings.job_timeout_seconds)
        return timed_out(settings.job_timeout_seconds)
    except (MemoryError, torch.OutOfMemoryError):
        log.exception("analysis %s ran out of memory", claim.id)
        return OUT_OF_MEMORY
    except Exception:  # the job's edge: a defect of ours ends this job with a reason, and no other
        log.exception("analysis %s failed unexpectedly", claim.id)
        return DEFECT


def _run(claim: Claim, spool: Path, progress: Progress, settings: Settings) -> Outcome | Release:
    spec = parse_spec(claim.spec)
    run: Run[Any] = Run(claim.id, spec, claim.identity, settings, spool, progress, process.engine(), claim.fence)
    spool.mkdir(parents=True)
    try:
        return KINDS[spec.kind](run)
    except TurnOver as pause:
        return Release(str(pause))
    finally:
        shutil.rmtree(spool, ignore_errors=True)
