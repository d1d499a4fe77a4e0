"""What waits and runs, counted in one query on both databases."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, update

from gramian.analyses import Status
from gramian.storage.backlog import backlogs
from gramian.storage.engine import database_epoch
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import claim, outcome


def due(engine: Engine, id: str, *, in_seconds: float) -> None:
    with UnitOfWork(engine) as uow:
        statement = update(AnalysisRow).where(AnalysisRow.id == id).values(due_at=database_epoch() + in_seconds)
        uow.session.execute(statement)


def test_a_queue_is_as_old_as_the_analysis_that_has_been_due_longest(engine: Engine, accept) -> None:
    assert backlogs(engine) == []
    now = datetime.now(UTC)
    accept("a", created_at=now - timedelta(seconds=100))
    accept("b", created_at=now - timedelta(seconds=50))
    due(engine, accept("c", created_at=now - timedelta(hours=5)), in_seconds=-300)
    due(engine, accept("d", created_at=now - timedelta(hours=9)), in_seconds=60)
    due(engine, accept("e", created_at=now, priority="batch"), in_seconds=60)
    running, done = accept("f", created_at=now - timedelta(days=1)), accept("g")
    claim(engine, running)
    claim(engine, done)
    with UnitOfWork(engine) as uow:
        uow.jobs.succeed(done, 1, outcome(), gramian_version="0")

    found = {(item.status, item.priority): item for item in backlogs(engine)}
    counts = {key: item.analyses for key, item in found.items()}
    queued, urgent, patient = Status.QUEUED, "interactive", "batch"
    assert counts == {(queued, urgent): 4, (queued, patient): 1, (Status.RUNNING, urgent): 1}
    assert found[queued, urgent].oldest_seconds == pytest.approx(300, abs=5)
    assert found[queued, patient].oldest_seconds is None
    assert found[Status.RUNNING, urgent].oldest_seconds is None
