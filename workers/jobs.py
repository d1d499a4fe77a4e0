"""One job, from the message to the stored result. Runs in a child process that RQ forks for it alone."""

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stamina
from rq.timeouts import JobTimeoutException
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

import gramian
from gramian.analyses import EmbeddingSpec
from gramian.errors import GramianError, LeaseLost
from gramian.settings import Settings
from gramian.storage.analyses import Outcome
from gramian.storage.engine import open_engine
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from workers.embedding import measure_embedding
from workers.progress import Progress

log = logging.getLogger("gramian.worker")

STORE_SECONDS = 120  # a finished result waits so long for a database that is away


def run_analysis(analysis_id: str) -> None:
    """Claim the analysis and run it to an end; do nothing if somebody else has it."""
    settings = Settings()
    engine = open_engine(settings.sqlalchemy_url)  # a connection must not cross the fork: opened here, in the child
    try:
        with UnitOfWork(engine) as uow:
            fence = uow.analyses.claim(analysis_id, lease_seconds=settings.lease_seconds)
            analysis = uow.analyses.get(analysis_id) if fence is not None else None
        if fence is None or analysis is None:
            log.info("analysis %s is not free, nothing to do", analysis_id)
            return
        started = time.perf_counter()
        with _lease(engine, analysis_id, fence, settings):
            _run(analysis, fence, Progress(engine, analysis_id, fence), engine, settings)
        log.info("analysis %s attempt %d ended after %.3f s", analysis_id, fence, time.perf_counter() - started)
    finally:
        engine.dispose()


def _run(analysis: AnalysisRow, fence: int, progress: Progress, engine: Engine, settings: Settings) -> None:
    answer: Outcome | dict[str, Any]
    try:
        answer = _measure(analysis, fence, progress, settings)
    except LeaseLost:
        log.warning("analysis %s: lost the lease of attempt %d, stopped", analysis.id, fence)
        return
    except GramianError as failure:
        log.info("analysis %s failed: %s", analysis.id, failure.message)
        answer = describe(failure)
    except JobTimeoutException:
        log.warning("analysis %s ran longer than %d s", analysis.id, settings.job_timeout_seconds)
        answer = timed_out(settings.job_timeout_seconds)
    except MemoryError:
        log.exception("analysis %s ran out of memory", analysis.id)
        answer = OUT_OF_MEMORY
    except Exception:  # the job's edge: a defect of ours ends this job with a reason, and no other
        log.exception("analysis %s failed unexpectedly", analysis.id)
        answer = DEFECT
    try:
        _store(engine, analysis.id, fence, answer)
    except LeaseLost:
        # Also what a repeated write finds after a commit whose answer was lost: the row then has this result.
        log.warning("analysis %s: attempt %d has nothing left to store", analysis.id, fence)


@stamina.retry(on=OperationalError, attempts=None, timeout=STORE_SECONDS)
def _store(engine: Engine, analysis_id: str, fence: int, answer: Outcome | dict[str, Any]) -> None:
    with UnitOfWork(engine) as uow:
        if isinstance(answer, Outcome):
            uow.analyses.succeed(analysis_id, fence, answer, gramian_version=gramian.__version__)
        else:
            uow.analyses.fail(analysis_id, fence, answer)


def _measure(analysis: AnalysisRow, fence: int, progress: Progress, settings: Settings) -> Outcome:
    spec = EmbeddingSpec.model_validate(analysis.spec)
    spool = spool_folder(settings) / f"{analysis.id}-{fence}"
    spool.mkdir(parents=True)
    try:
        return measure_embedding(
            analysis.id, spec, analysis.identity, settings=settings, spool=spool, progress=progress
        )
    finally:
        shutil.rmtree(spool)


def spool_folder(settings: Settings) -> Path:
    return settings.data_dir / "spool"


def sweep_spool(settings: Settings) -> None:
    """Remove what killed runs have fetched: folders older than any run may be."""
    oldest = time.time() - settings.job_timeout_seconds - 60
    for folder in spool_folder(settings).glob("*"):
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lease(engine: Engine, analysis_id: str, fence: int, settings: Settings) -> Iterator[None]:
    """Keep the claim alive from a thread for as long as the block runs."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(settings.lease_seconds / 3):
            try:
                with UnitOfWork(engine) as uow:
                    if not uow.analyses.renew(analysis_id, fence, lease_seconds=settings.lease_seconds):
                        return  # another's now: the fence refuses this run's result when it comes
            except SQLAlchemyError:  # no answer is not a refusal: go on, try again
                log.warning("analysis %s: the lease could not be renewed just now", analysis_id, exc_info=True)

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def describe(failure: GramianError) -> dict[str, Any]:
    """The facts of a failure as they are stored: the problem document without what only HTTP knows."""
    facts: dict[str, Any] = {"code": failure.code, "title": failure.title, "detail": failure.message}
    if failure.hint:
        facts["hint"] = failure.hint
    if candidates := getattr(failure, "candidates", None):
        facts["candidates"] = list(candidates)
    return facts


def timed_out(seconds: int) -> dict[str, Any]:
    return {
        "code": "timed_out",
        "title": "The analysis ran too long",
        "detail": f"it was stopped after {seconds} s",
        "hint": "the operator's limit is GRAMIAN_JOB_TIMEOUT_SECONDS",
    }


OUT_OF_MEMORY = {
    "code": "out_of_memory",
    "title": "The worker ran out of memory",
    "detail": "the matrix needs more memory than this worker has",
    "hint": "run it on a worker with more memory: two float64 matrices of d×d are held at once",
}
DEFECT = {
    "code": "internal_error",
    "title": "The analysis failed unexpectedly",
    "detail": "an error inside Gramian ended the analysis; the worker's log has its trace",
    "hint": "please report it with the analysis id",
}
