"""A result is stored whole, also when the database goes away in the middle of its commit."""

import pytest
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from gramian.storage.jobs import Claim
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import claim, matrix, outcome, question
from workers.finish import store


@pytest.mark.parametrize("failures", [1, 2])
def test_a_commit_that_failed_is_repeated_with_all_its_rows(engine: Engine, failures: int) -> None:
    with UnitOfWork(engine) as uow:
        id = uow.analyses.accept(question(), {}).row.id
    fence = claim(engine, id)
    assert fence is not None
    left = [failures]

    def fail(connection: Connection) -> None:
        if left[0]:
            left[0] -= 1
            if connection.dialect.name == "postgresql":
                connection.connection.driver_connection.close()  # the COMMIT that follows finds out
            else:
                raise OperationalError("COMMIT", {}, Exception("planted: disk I/O error"))

    event.listen(engine, "commit", fail)
    run = Claim(id, fence, failures=0, spec={}, identity={}, request_id=None)
    store(engine, run, outcome(matrix(id)))
    with UnitOfWork(engine, writes=False) as uow:
        row = uow.analyses.get(id)
        assert (row.status, [found.dim for found in row.matrices]) == ("succeeded", [4])
