"""Files that analyses made, in SQL."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from gramian.errors import NotFound
from gramian.storage.blobs import StoredFile
from gramian.storage.tables import AnalysisRow, FileRow


class FileRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def get(self, analysis: AnalysisRow, name: str) -> StoredFile:
        """The analysis's file of this name."""
        row = self.session.get(FileRow, (analysis.id, name)) if "\x00" not in name else None
        if row is None:
            raise NotFound(
                "file",
                f"{analysis.id}/{name}",
                hint=f"the analysis is {analysis.status}, of kind {analysis.kind!r}: "
                "files are there once it has succeeded, and its result links to those that it has",
            )
        return StoredFile(row.sha256, row.size)

    def used(self, digests: Sequence[str]) -> set[str]:
        """Those of the digests that an analysis refers to."""
        return set(self.session.scalars(select(FileRow.sha256).where(FileRow.sha256.in_(digests))))
