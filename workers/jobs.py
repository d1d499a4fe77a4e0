"""One job, from the message to the stored result. Runs in a child process that RQ forks for it alone."""

import logging
import shutil
import time
from pathlib import Path

import stamina
from rq.timeouts import JobTimeoutException
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

import gramian
from gramian.analyses import EmbeddingSpec
from gramian.errors import GramianError, LeaseLost
from gramian.settings import Settings
from gramian.storage.analyses import Claim, Outcome
from gramian.storage.unit_of_work import UnitOfWork
from workers import process
from workers.embedding import measure_embedding
from workers.failures import DEFECT, OUT_OF_MEMORY, Failure, Postponement, delay, described, timed_out
from workers.lease import kept_lease
from workers.progress import Progress

log = logging.getLogger("gramian.worker")

Answer = Outcome | Postponement | Failure

STORE_SECONDS = 120  # a finished result waits so long for a database that is away


def run_analysis(analysis_id: str) -> None:
    """Claim the analysis and run it to an end; do nothing if somebody else has it."""
    engine, settings = process.engine(), process.settings()
    started = time.perf_counter()
    with UnitOfWork(engine) as uow:
        claim = uow.analyses.claim(analysis_id, lease_seconds=settings.lease_seconds)
    if claim is None:
        log.info("analysis %s is not free, nothing to do", analysis_id)
        return
    spool = spool_folder(settings) / f"{claim.id}-{claim.fence}"
    keeping = kept_lease(
        engine,
        claim.id,
        claim.fence,
        seconds=settings.lease_seconds,
        abandon=lambda: shutil.rmtree(spool, ignore_errors=True),
    )
    with keeping:
        try:
            answer = _answer(claim, spool, Progress(engine, analysis_id, claim.fence), settings)
            _store(engine, claim, answer)
        except LeaseLost:
            # Also what a repeated write finds after a commit whose answer was lost: the row then has this result.
            log.warning("analysis %s: attempt %d is over, it stores nothing", analysis_id, claim.fence)
    log.info("analysis %s attempt %d ended after %.3f s", analysis_id, claim.fence, time.perf_counter() - started)


def _answer(claim: Claim, spool: Path, progress: Progress, settings: Settings) -> Answer:
    try:
        return _measure(claim, spool, progress, settings)
    except LeaseLost:
        raise
    except GramianError as failure:
        log.info("analysis %s failed: %s", claim.id, failure.message)
        if failure.transient and claim.failures + 1 < settings.max_failures:
            return Postponement(delay(claim.failures, failure), described(failure))
        return described(failure)
    except JobTimeoutException:
        log.warning("analysis %s ran longer than %d s", claim.id, settings.job_timeout_seconds)
        return timed_out(settings.job_timeout_seconds)
    except MemoryError:
        log.exception("analysis %s ran out of memory", claim.id)
        return OUT_OF_MEMORY
    except Exception:  # the job's edge: a defect of ours ends this job with a reason, and no other
        log.exception("analysis %s failed unexpectedly", claim.id)
        return DEFECT


def _measure(claim: Claim, spool: Path, progress: Progress, settings: Settings) -> Outcome:
    spec = EmbeddingSpec.model_validate(claim.spec)
    spool.mkdir(parents=True)
    try:
        return measure_embedding(claim.id, spec, claim.identity, settings=settings, spool=spool, progress=progress)
    finally:
        shutil.rmtree(spool, ignore_errors=True)


@stamina.retry(on=OperationalError, attempts=None, timeout=STORE_SECONDS)
def _store(engine: Engine, claim: Claim, answer: Answer) -> None:
    with UnitOfWork(engine) as uow:
        match answer:
            case Outcome():
                uow.analyses.succeed(claim.id, claim.fence, answer, gramian_version=gramian.__version__)
            case Postponement(seconds, failure):
                uow.analyses.postpone(claim.id, claim.fence, seconds=seconds, error=failure)
            case failure:
                uow.analyses.fail(claim.id, claim.fence, failure)


def spool_folder(settings: Settings) -> Path:
    return settings.data_dir / "spool"


def sweep_spool(settings: Settings) -> None:
    """Remove what killed runs have fetched: folders older than any run may be."""
    oldest = time.time() - settings.job_timeout_seconds - 60
    for folder in spool_folder(settings).glob("*"):
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
