"""What is kept for so long and no longer: ended analyses, uploads, and who did what; and bytes that nobody has."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, func, select

from gramian.analyses import ENDED
from gramian.errors import Conflict, NotFound
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage.audit import RETENTION, AuditRow
from gramian.storage.blobs import BlobStore, artifact_store
from gramian.storage.deleting import delete_analysis, delete_upload, drop_blob
from gramian.storage.tables import AnalysisRow, UploadRow
from gramian.storage.unit_of_work import UnitOfWork

AT_ONCE = 500
UNCLAIMED_SECONDS = 3600.0  # an upload's bytes are there a moment before its row is


@dataclass(frozen=True)
class Swept:
    """How much was deleted, or would be."""

    analyses: int
    uploads: int
    audit_entries: int
    orphaned_blobs: int


def sweep(engine: Engine, settings: Settings, *, dry_run: bool = False) -> Swept:
    """Delete what is older than the settings say, each in its own transaction, and uploaded bytes without a row."""
    now = datetime.now(UTC)
    analyses = _old_analyses(engine, _before(now, settings.retain_analyses_days))
    uploads = _old_uploads(engine, _before(now, settings.retain_uploads_days))
    orphans = _orphaned_blobs(engine, blobs := _blobs(settings))
    entries = _old_entries(engine, now - timedelta(days=settings.retain_audit_days), dry_run=dry_run)
    if not dry_run:
        analyses = [each for each in analyses if _delete_analysis(engine, each, artifact_store(settings))]
        uploads = [each for each in uploads if _delete_upload(engine, each, blobs)]
        orphans = [digest for digest in orphans if drop_blob(engine, blobs, digest)]
    return Swept(len(analyses), len(uploads), entries, len(orphans))


def _before(now: datetime, days: float | None) -> datetime | None:
    return now - timedelta(days=days) if days is not None else None


def _blobs(settings: Settings) -> BlobStore:
    return BlobStore(settings.data_dir / "blobs")


def _old_analyses(engine: Engine, before: datetime | None) -> list[str]:
    if before is None:
        return []
    query = select(AnalysisRow.id).where(AnalysisRow.status.in_(ENDED), AnalysisRow.finished_at < before)
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        return list(uow.session.scalars(query))


def _old_uploads(engine: Engine, before: datetime | None) -> list[str]:
    if before is None:
        return []
    query = select(UploadRow.id).where(UploadRow.deleted_at.is_(None), UploadRow.created_at < before)
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        return list(uow.session.scalars(query))


def _delete_analysis(engine: Engine, id: str, artifacts: BlobStore) -> bool:
    """False if somebody else was faster."""
    with UnitOfWork(engine, project=EVERY, actor=RETENTION) as uow:
        analysis = uow.session.get(AnalysisRow, id, with_for_update=True)
        if analysis is None:
            return False
        delete_analysis(uow, analysis, engine=engine, artifacts=artifacts)
    return True


def _delete_upload(engine: Engine, id: str, blobs: BlobStore) -> bool:
    """False if an analysis still needs it, or somebody else was faster."""
    try:
        with UnitOfWork(engine, project=EVERY, actor=RETENTION) as uow:
            delete_upload(uow, uow.uploads.get(id), engine=engine, blobs=blobs)
    except (Conflict, NotFound):
        return False
    return True


def _old_entries(engine: Engine, before: datetime, *, dry_run: bool) -> int:
    with UnitOfWork(engine, project=EVERY, writes=not dry_run) as uow:
        count = uow.session.scalar(select(func.count()).select_from(AuditRow).where(AuditRow.at < before)) or 0
        if count and not dry_run:
            uow.audit.forget(before=before)
    return count


def _orphaned_blobs(engine: Engine, blobs: BlobStore) -> list[str]:
    """Bytes that a crash left behind between the file and its row."""
    found = blobs.digests(older_than=UNCLAIMED_SECONDS)
    orphans: list[str] = []
    for start in range(0, len(found), AT_ONCE):
        some = found[start : start + AT_ONCE]
        with UnitOfWork(engine, project=EVERY, writes=False) as uow:
            held = uow.uploads.held(some)
        orphans += [digest for digest in some if digest not in held]
    return orphans
