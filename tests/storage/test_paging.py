"""Pages come from an index: what a list costs does not grow with the table."""

import pytest
from sqlalchemy import Engine, event, text

from gramian.analyses import Status
from gramian.storage.unit_of_work import UnitOfWork


def plan_of_search(engine: Engine, status: Status | None) -> str:
    """How the database goes about the query for the newest analyses."""
    statements: list[tuple[str, object]] = []

    def note(connection, cursor, statement, parameters, context, many) -> None:
        statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    with UnitOfWork(engine, writes=False) as uow:
        page = {"kind": None, "model_id": None, "labels": [], "cursor": None, "limit": 50}
        uow.analyses.search(status=status, sort="-created_at", **page)
    event.remove(engine, "before_cursor_execute", note)
    statement, parameters = next((each, values) for each, values in statements if "ORDER BY" in each)
    explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL enable_seqscan = off"))  # so small a table would be read whole
            connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        return "\n".join(str(row) for row in connection.exec_driver_sql(explain + statement, parameters))


@pytest.mark.parametrize(
    ("status", "index"), [(None, "ix_analyses_created_at"), (Status.QUEUED, "ix_analyses_status_created_at")]
)
def test_the_newest_are_read_off_an_index_without_sorting(engine: Engine, accept, status, index: str) -> None:
    for name in "abc":
        accept(name)
    plan = plan_of_search(engine, status)
    assert index in plan
    assert "B-TREE" not in plan
    assert "Sort" not in plan


def test_ties_are_told_once_over_all_pages_in_either_direction(engine: Engine, accept) -> None:
    ids = [accept(name) for name in "abcdefg"]
    with engine.begin() as connection:
        connection.execute(text("UPDATE analyses SET created_at = (SELECT MIN(created_at) FROM analyses)"))
    for sort, expected in (("created_at", sorted(ids)), ("-created_at", sorted(ids, reverse=True))):
        seen, cursor = [], None
        while True:
            with UnitOfWork(engine, writes=False) as uow:
                page = uow.analyses.search(
                    kind=None, status=None, model_id=None, labels=[], sort=sort, cursor=cursor, limit=3
                )
            seen += [row.id for row in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == expected
