"""Deletion of uploads and analyses with their files: rows first; bytes after the commit, if nobody else has them."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial

from sqlalchemy import Engine, delete, select

from gramian.analyses import ENDED
from gramian.errors import Conflict, NotFound
from gramian.projects import EVERY
from gramian.storage.blobs import BlobStore
from gramian.storage.tables import AnalysisRow, FileRow, IdempotencyRow, UploadRow
from gramian.storage.unit_of_work import UnitOfWork


def delete_upload(uow: UnitOfWork, upload: UploadRow, *, engine: Engine, blobs: BlobStore) -> None:
    """Forget an upload, and its bytes if no other upload has the same. Results of its analyses stay."""
    uow.hold(upload.sha256)
    if uow.analyses.uses_upload(upload.id):
        raise Conflict(
            f"upload {upload.id!r} is being analysed", hint="wait for the analysis to end, then delete the upload"
        )
    uow.uploads.delete(upload)
    uow.audit.note("upload.deleted", upload.id, project_id=upload.project_id)
    uow.after_commit(partial(drop_blob, engine, blobs, upload.sha256))


def drop_blob(engine: Engine, blobs: BlobStore, sha256: str) -> bool:
    """Remove uploaded bytes that no upload has; whether there were such. Whoever uploads the same waits meanwhile."""
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.hold(sha256)
        if uow.uploads.holds(sha256):
            return False
        blobs.delete(sha256)
    return True


def delete_analysis(uow: UnitOfWork, analysis: AnalysisRow, *, engine: Engine, artifacts: BlobStore) -> None:
    """Forget an analysis that has ended: its numbers, its events, and the files that it made."""
    lock = select(AnalysisRow.status).where(AnalysisRow.id == analysis.id).with_for_update()
    status = uow.session.scalars(lock).one_or_none()
    if status is None:
        raise NotFound("analysis", analysis.id, hint="somebody else has just deleted it")
    if status not in ENDED:
        raise Conflict(
            f"analysis {analysis.id!r} is {status}",
            hint=f"POST /v1/analyses/{analysis.id}/cancel first, or wait for its end",
        )
    ended = analysis.finished_at or analysis.created_at
    made = uow.session.scalars(select(FileRow.sha256).where(FileRow.analysis_id == analysis.id)).all()
    uow.session.execute(delete(IdempotencyRow).where(IdempotencyRow.analysis_id == analysis.id))
    uow.session.delete(analysis)
    uow.session.flush()
    uow.audit.note("analysis.deleted", analysis.id, project_id=analysis.project_id)
    if made:
        uow.after_commit(lambda: _drop_artifacts(engine, artifacts, made, written_before=ended))


def _drop_artifacts(engine: Engine, artifacts: BlobStore, digests: Iterable[str], *, written_before: datetime) -> None:
    """Remove files that no analysis has. One that was written since is another run's, which is about to refer to it."""
    wanted = list(digests)
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        used = uow.files.used(wanted)
    for digest in set(wanted) - used:
        with suppress(FileNotFoundError):
            if artifacts.path(digest).stat().st_mtime <= written_before.timestamp():
                artifacts.delete(digest)
