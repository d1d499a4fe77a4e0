"""What a worker sets up once, before it forks, and every job of it uses."""

import functools
import gc
from contextlib import suppress

import torch
from sqlalchemy import Engine
from sqlalchemy.orm import configure_mappers

from gramian.errors import LeaseLost
from gramian.geometry.measurement import measure_matrix
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage.engine import open_engine
from gramian.storage.events import record
from gramian.storage.unit_of_work import UnitOfWork
from workers.failures import DEFECT
from workers.outcomes import SharedEnding

NO_ANALYSIS = "an_none"


@functools.cache
def settings() -> Settings:
    """Read once: the environment of a process does not change."""
    return Settings()


@functools.cache
def engine() -> Engine:
    """One engine a process. A connection must not cross a fork; `prepare` leaves none open."""
    return open_engine(settings().sqlalchemy_url)


@functools.cache
def ending() -> SharedEnding:
    """What the child that is forked next writes and the worker reads; the worker asks for it first."""
    return SharedEnding()


def prepare() -> None:
    """Do in the parent what every child would do first: map the tables, compile the statements of a job.

    Saves tens of milliseconds a job. The connections are closed again before anything forks.
    """
    configure_mappers()
    with UnitOfWork(engine(), project=EVERY) as uow:
        uow.jobs.claim(NO_ANALYSIS, lease_seconds=1)
        uow.jobs.renew(NO_ANALYSIS, 0, lease_seconds=1)
        with suppress(LeaseLost):
            uow.jobs.fail(NO_ANALYSIS, 0, DEFECT)
        record(uow.session, NO_ANALYSIS, "status", {})
    engine().dispose()
    _measure_something()
    gc.freeze()  # what lives now lives on: the children's collector need not touch, and so copy, its pages


def _measure_something() -> None:
    """Let the math libraries find their kernels here instead of in every child.

    On one thread: the pools of threads that they start otherwise would not survive a fork.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = torch.ones(64, 64) + torch.eye(64)
    measure_matrix([rows], rows=64, dim=64, products=torch.float32)
    torch.set_num_threads(threads)
