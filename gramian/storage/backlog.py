"""What waits and what runs, for those who watch the whole service."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, TextClause, func, select, text

from gramian.analyses import Status
from gramian.storage.engine import database_epoch
from gramian.storage.tables import AnalysisRow

#: The predicate of `ix_analyses_unfinished`, letter by letter: what has ended, however much, is not looked at.
UNFINISHED: TextClause = text("status IN ('queued', 'running')")


@dataclass(frozen=True)
class Backlog:
    """The unfinished analyses of one status and priority."""

    status: Status
    priority: str
    analyses: int
    oldest_seconds: float | None  # since the one that waits longest came, or was due again; None if none is due


def backlogs(engine: Engine) -> list[Backlog]:
    """All unfinished analyses, counted in one query."""
    now = database_epoch()
    waits = AnalysisRow.status == Status.QUEUED
    came = func.min(AnalysisRow.created_at).filter(waits, AnalysisRow.due_at.is_(None))
    due = func.min(AnalysisRow.due_at).filter(waits, AnalysisRow.due_at <= now)
    query = (
        select(AnalysisRow.status, AnalysisRow.priority, func.count(), came, due, now)
        .where(UNFINISHED)
        .group_by(AnalysisRow.status, AnalysisRow.priority)
    )
    with engine.execution_options(writes=False).connect() as connection:
        return [
            Backlog(Status(status), priority, count, _oldest(came, due, now))
            for status, priority, count, came, due, now in connection.execute(query)
        ]


def _oldest(came: datetime | None, due: float | None, now: float) -> float | None:
    ages = [] if came is None else [(datetime.now(UTC) - came).total_seconds()]
    ages += [] if due is None else [now - due]
    return max(0.0, *ages) if ages else None
