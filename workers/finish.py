"""How a run can end, and writing that down under its fence."""

from dataclasses import dataclass
from typing import Any

import stamina
from sqlalchemy import Engine
from sqlalchemy.exc import InternalError, OperationalError

import gramian
from gramian.projects import EVERY
from gramian.storage.jobs import Claim, Outcome
from gramian.storage.unit_of_work import UnitOfWork

STORE_SECONDS = 120  # a finished result waits so long for a database that is away

Failure = dict[str, Any]  # a problem document without what only HTTP knows


@dataclass(frozen=True)
class Postponement:
    """A transient failure: the analysis is tried again after so many seconds."""

    seconds: float
    failure: Failure


@dataclass(frozen=True)
class Release:
    """The run ends early and goes on later, here or elsewhere: nothing is counted."""

    message: str = "its worker stopped, another goes on"


Answer = Outcome | Postponement | Release | Failure


@stamina.retry(on=(OperationalError, InternalError), attempts=None, timeout=STORE_SECONDS)
def store(engine: Engine, claim: Claim, answer: Answer) -> None:
    """Write the end of the run in one transaction, or raise LeaseLost."""
    with UnitOfWork(engine, project=EVERY) as uow:
        match answer:
            case Outcome():
                uow.jobs.succeed(claim.id, claim.fence, answer, gramian_version=gramian.__version__)
            case Postponement(seconds, failure):
                uow.jobs.postpone(claim.id, claim.fence, seconds=seconds, error=failure)
            case Release(message):
                uow.jobs.release(claim.id, claim.fence, message)
            case failure:
                uow.jobs.fail(claim.id, claim.fence, failure)
