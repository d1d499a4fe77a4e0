"""Sessions that see one project: the limit is put on every statement here, so that no query can forget it."""

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from gramian.storage.tables import ProjectOwned

#: Lifts the limit for one statement: `execution_options=EVERY_PROJECT`. For what rows of all projects share, as bytes.
EVERY_PROJECT: dict[str, Any] = {"every_project": True}


def open_session(engine: Engine, project: str | None) -> Session:
    """A session that reads, changes and deletes rows of this project alone, and adds rows to it.

    Without a project it sees those of all, and whoever adds a row says whose it is.
    """
    session = Session(engine, expire_on_commit=False, info={"project": project})
    event.listen(session, "before_flush", _own_new_rows)
    if project is not None:
        event.listen(session, "do_orm_execute", _limit)
    return session


def _limit(state: ORMExecuteState) -> None:
    if state.is_insert or state.is_column_load or state.is_relationship_load:
        return  # rows to insert are owned below; the others are reached through a row that was found already
    if state.execution_options.get("every_project"):
        return
    project = state.session.info["project"]
    state.statement = state.statement.options(
        with_loader_criteria(ProjectOwned, lambda owned: owned.project_id == project, include_aliases=True)
    )


def _own_new_rows(session: Session, *_: object) -> None:
    for row in session.new:
        if isinstance(row, ProjectOwned) and row.project_id is None:
            row.project_id = session.info["project"]
