"""Access keys in SQL: made, found by what was sent, rotated, revoked."""

import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from gramian.analyses import new_id
from gramian.errors import NotFound
from gramian.keys import KeySecret, Scope, new_key
from gramian.storage.tables import KeyRow

USE_NOTED_EVERY = timedelta(minutes=1)  # so that a busy key does not write with every request


class KeyRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def create(
        self,
        name: str,
        scope: Scope,
        *,
        lifetime: timedelta | None = None,
        project_id: str | None = None,
        limits: Mapping[str, int | None] = MappingProxyType({}),
    ) -> tuple[KeyRow, KeySecret]:
        """A new key and its secret, which nobody can read again; for the unit of work's project, or the one named."""
        secret, now = new_key(), datetime.now(UTC)
        row = KeyRow(
            id=new_id("key"),
            project_id=project_id,
            name=name,
            scope=scope,
            shown=secret.shown,
            sha256=secret.sha256,
            created_at=now,
            expires_at=now + lifetime if lifetime else None,
            **limits,
        )
        self.session.add(row)
        self.session.flush()
        return row, secret

    def find(self, secret: KeySecret) -> KeyRow | None:
        """The live key that was sent, its use noted; None if there is none, or it is expired or revoked."""
        now = datetime.now(UTC)
        candidates = self.session.scalars(select(KeyRow).where(KeyRow.shown == secret.shown))
        found = [row for row in candidates if hmac.compare_digest(row.sha256, secret.sha256)]
        if not found or not found[0].is_live(now):
            return None
        (row,) = found
        return row

    def is_use_unnoted(self, row: KeyRow) -> bool:
        return row.last_used_at is None or row.last_used_at < datetime.now(UTC) - USE_NOTED_EVERY

    def note_use(self, id: str) -> None:
        """Write down that the key is in use, at most once a minute."""
        now = datetime.now(UTC)
        unnoted = or_(KeyRow.last_used_at.is_(None), KeyRow.last_used_at < now - USE_NOTED_EVERY)
        self.session.execute(update(KeyRow).where(KeyRow.id == id, unnoted).values(last_used_at=now))

    def get(self, id: str) -> KeyRow:
        row = self.session.get(KeyRow, id) if "\x00" not in id else None
        if row is None:
            raise NotFound("key", id, hint="GET /v1/keys lists them")
        return row

    def list(self) -> Sequence[KeyRow]:
        """All keys, the newest first; revoked and expired ones too."""
        return self.session.scalars(select(KeyRow).order_by(KeyRow.created_at.desc(), KeyRow.id.desc())).all()

    def any_live(self) -> bool:
        now = datetime.now(UTC)
        return any(row.is_live(now) for row in self.list())

    def rotate(self, id: str, *, overlap: timedelta) -> tuple[KeyRow, KeySecret]:
        """A successor with the same name, scope and lifetime; the old key lives on for the overlap."""
        old, now = self.get(id), datetime.now(UTC)
        lifetime = old.expires_at - old.created_at if old.expires_at else None
        end = now + overlap
        old.expires_at = min(old.expires_at, end) if old.expires_at else end
        return self.create(old.name, Scope(old.scope), lifetime=lifetime, project_id=old.project_id, limits=old.limits)

    def revoke(self, id: str) -> KeyRow:
        """End the key at once. Revoking twice is revoking once."""
        row = self.get(id)
        row.revoked_at = row.revoked_at or datetime.now(UTC)
        return row
