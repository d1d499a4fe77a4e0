"""Uploads in SQL."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from gramian.errors import NotFound
from gramian.storage.session import EVERY_PROJECT
from gramian.storage.tables import UploadRow


class UploadRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def add(self, upload: UploadRow) -> None:
        self.session.add(upload)
        self.session.flush()

    def get(self, id: str) -> UploadRow:
        row = self.session.get(UploadRow, id) if "\x00" not in id else None
        if row is None or row.deleted_at is not None:
            raise NotFound("upload", id, hint="POST /v1/uploads stores a file and returns its id")
        return row

    def delete(self, upload: UploadRow) -> None:
        """Forget the file; the row stays, since analyses refer to it."""
        upload.deleted_at = datetime.now(UTC)
        self.session.flush()

    def of_last_day(self, key_id: str | None) -> Sequence[tuple[datetime, int]]:
        """When and how much a key uploaded within 24 hours, the oldest first; without a key: whoever had none."""
        query = (
            select(UploadRow.created_at, UploadRow.size)
            .where(UploadRow.key_id == key_id, UploadRow.created_at > datetime.now(UTC) - timedelta(days=1))
            .order_by(UploadRow.created_at)
        )
        return [(created, size) for created, size in self.session.execute(query)]

    def held(self, digests: Sequence[str]) -> set[str]:
        """Those of the digests that an upload of any project has."""
        query = select(UploadRow.sha256).where(UploadRow.sha256.in_(digests), UploadRow.deleted_at.is_(None))
        return set(self.session.scalars(query, execution_options=EVERY_PROJECT))

    def holds(self, sha256: str) -> bool:
        """Whether any upload that was not deleted, of whatever project, has these bytes."""
        query = select(UploadRow.id).where(UploadRow.sha256 == sha256, UploadRow.deleted_at.is_(None)).limit(1)
        return self.session.scalar(query, execution_options=EVERY_PROJECT) is not None
