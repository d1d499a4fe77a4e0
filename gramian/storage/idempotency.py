"""First answers by idempotency key: reserved and written in the transaction that they answer for."""

from dataclasses import dataclass

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from gramian.errors import IdempotencyKeyReused
from gramian.storage.engine import database_epoch
from gramian.storage.inserting import insert
from gramian.storage.tables import IdempotencyRow

KEPT_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class FirstAnswer:
    """What the first request with a key was answered."""

    analysis_id: str
    status: int
    body: str


class IdempotencyRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def find(self, key: str, fingerprint: str) -> FirstAnswer | None:
        """The first answer under the key, or IdempotencyKeyReused if it answered another question."""
        row = self.session.scalars(
            select(IdempotencyRow).where(
                IdempotencyRow.key == key, IdempotencyRow.created_at > database_epoch() - KEPT_SECONDS
            )
        ).one_or_none()
        if row is None:
            return None
        if row.fingerprint != fingerprint:
            raise IdempotencyKeyReused(
                f"the idempotency key {key!r} came with another body before",
                hint="use a new key for a new question; repeat the same body to get its answer again",
            )
        if row.analysis_id is None or row.status is None or row.body is None:
            return None  # reserved in this very transaction
        return FirstAnswer(row.analysis_id, row.status, row.body)

    def reserve(self, key: str, fingerprint: str) -> bool:
        """Take the key for this transaction; False if it is taken. Waits for a concurrent holder to commit."""
        self.session.execute(
            delete(IdempotencyRow).where(
                IdempotencyRow.key == key, IdempotencyRow.created_at <= database_epoch() - KEPT_SECONDS
            )
        )
        values = {
            "project_id": self.session.info["project"],
            "key": key,
            "fingerprint": fingerprint,
            "created_at": database_epoch(),
        }
        statement = insert(self.session, IdempotencyRow).values(values).on_conflict_do_nothing()
        return self.session.execute(statement.returning(IdempotencyRow.key)).scalar() is not None

    def answer(self, key: str, first: FirstAnswer) -> None:
        """Keep the first answer."""
        self.session.execute(
            update(IdempotencyRow)
            .where(IdempotencyRow.key == key)
            .values(analysis_id=first.analysis_id, status=first.status, body=first.body)
        )

    def forget(self) -> None:
        """Remove keys past their time."""
        self.session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at <= database_epoch() - KEPT_SECONDS))
