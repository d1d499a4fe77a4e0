"""What happened to an analysis, numbered: written with the change itself, replayed to whoever watches."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Engine, literal, select
from sqlalchemy.orm import Session

from gramian.analyses import Status
from gramian.storage.inserting import insert
from gramian.storage.tables import AnalysisRow, EventRow

EventType = Literal["status", "progress"]


@dataclass(frozen=True)
class Event:
    """One entry; `number` counts from 1 without gaps within its analysis."""

    number: int
    type: EventType
    data: dict[str, Any]


@dataclass(frozen=True)
class Standing:
    """Where an analysis stands: the number of its latest event, and its status."""

    number: int
    status: Status


def record(session: Session, analysis_id: str, type: EventType, data: dict[str, Any]) -> None:
    """Write the event under the number that the same transaction gave to `AnalysisRow.events`."""
    values = select(
        AnalysisRow.id,
        AnalysisRow.events,
        literal(type, EventRow.type.type),
        literal(data, EventRow.data.type),
        literal(datetime.now(UTC), EventRow.created_at.type),
    ).where(AnalysisRow.id == analysis_id)
    session.execute(
        insert(session, EventRow).from_select(["analysis_id", "number", "type", "data", "created_at"], values)
    )


def standings(engine: Engine, ids: Sequence[str]) -> dict[str, Standing]:
    """Where each of `ids` stands; asked many times a second, so without a session."""
    query = select(AnalysisRow.id, AnalysisRow.events, AnalysisRow.status).where(AnalysisRow.id.in_(ids))
    with engine.execution_options(writes=False).connect() as connection:
        return {row.id: Standing(row.events, Status(row.status)) for row in connection.execute(query)}


def events_after(engine: Engine, analysis_id: str, number: int) -> list[Event]:
    """The analysis's events after `number`, in order."""
    query = (
        select(EventRow.number, EventRow.type, EventRow.data)
        .where(EventRow.analysis_id == analysis_id, EventRow.number > number)
        .order_by(EventRow.number)
    )
    with engine.execution_options(writes=False).connect() as connection:
        return [Event(*row) for row in connection.execute(query)]
