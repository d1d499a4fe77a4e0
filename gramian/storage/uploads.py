"""Uploads in SQL."""

from datetime import UTC, datetime

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

    def holds(self, sha256: str) -> bool:
        """Whether any upload that was not deleted, of whatever project, has these bytes."""
        query = select(UploadRow.id).where(UploadRow.sha256 == sha256, UploadRow.deleted_at.is_(None)).limit(1)
        return self.session.scalar(query, execution_options=EVERY_PROJECT) is not None
