"""INSERT … ON CONFLICT, which both databases have and SQLAlchemy spells by dialect."""

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from gramian.storage.tables import Base


def insert(session: Session, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that understands `on_conflict_do_nothing` in the session's database."""
    if session.get_bind().dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
