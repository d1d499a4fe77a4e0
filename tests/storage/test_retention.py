"""Deletion takes files along that nobody else has; retention deletes what is old, and bytes without a row."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, inspect, select, text, update

from gramian.analyses import new_id
from gramian.errors import Conflict
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage import retention
from gramian.storage.audit import RETENTION, AuditRow
from gramian.storage.blobs import BlobStore, artifact_store
from gramian.storage.deleting import delete_analysis, delete_upload
from gramian.storage.tables import AnalysisRow, FileRow, UploadRow
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import claim, matrix, outcome, question

NOW = datetime.now(UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, disk_reserve_bytes=0)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def uploaded(engine: Engine, blobs: BlobStore, content: bytes, *, project: str = "default", age_days: float = 0) -> str:
    file = blobs.store([content], size=len(content))
    with UnitOfWork(engine, project=project) as uow:
        row = UploadRow(
            id=new_id("upl"),
            filename="f",
            size=file.size,
            sha256=file.sha256,
            format="npy",
            tensors=[],
            created_at=NOW - timedelta(days=age_days),
        )
        uow.uploads.add(row)
    return row.id


def finished(
    engine: Engine, settings: Settings, name: str, content: bytes = b"", *, age_days: float = 0, **more
) -> str:
    with UnitOfWork(engine) as uow:
        id = uow.analyses.accept(question(name, **more), {"team": "x"}).row.id
    fence = claim(engine, id)
    files = {"f.safetensors": artifact_store(settings).store([content], size=len(content))} if content else {}
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id), files=files), gramian_version="1")
    ended = datetime.now(UTC) - timedelta(days=age_days)
    with UnitOfWork(engine) as uow:
        uow.session.get(AnalysisRow, id).finished_at = ended
    for file in files.values():
        os.utime(artifact_store(settings).path(file.sha256), (ended.timestamp() - 1, ended.timestamp() - 1))
    return id


def files(store: BlobStore) -> int:
    return len(store.digests(older_than=-1))


def remove(engine: Engine, settings: Settings, id: str) -> None:
    with UnitOfWork(engine) as uow:
        delete_analysis(uow, uow.analyses.get(id), engine=engine, artifacts=artifact_store(settings))


def test_an_analysis_goes_with_its_file_once_no_other_has_the_same(engine, settings) -> None:
    store = artifact_store(settings)
    first, second = (finished(engine, settings, name, b"same bytes") for name in "ab")
    remove(engine, settings, first)
    assert files(store) == 1
    remove(engine, settings, second)
    assert files(store) == 0


def test_nothing_refers_to_a_deleted_analysis(engine, settings) -> None:
    id = finished(engine, settings, "a", b"bytes")
    remove(engine, settings, id)
    with engine.connect() as connection:
        for (_, table), columns in inspect(connection).get_multi_columns().items():
            if "analysis_id" in [column["name"] for column in columns]:
                assert connection.scalar(text(f"SELECT count(*) FROM {table} WHERE analysis_id = '{id}'")) == 0, table  # noqa: S608


def test_a_file_that_was_written_since_is_left_to_its_run(engine, settings) -> None:
    id = finished(engine, settings, "a", b"bytes")
    store = artifact_store(settings)
    (digest,) = store.digests(older_than=-1)
    later = time.time() + 5
    os.utime(store.path(digest), (later, later))
    remove(engine, settings, id)
    assert store.path(digest).exists()


def test_a_deletion_that_is_rolled_back_leaves_the_bytes(engine, settings, blobs) -> None:
    upload = uploaded(engine, blobs, b"bytes")
    analysis = finished(engine, settings, "a", b"made")

    def delete_and_fail() -> None:
        with UnitOfWork(engine) as uow:
            delete_upload(uow, uow.uploads.get(upload), engine=engine, blobs=blobs)
            delete_analysis(uow, uow.analyses.get(analysis), engine=engine, artifacts=artifact_store(settings))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        delete_and_fail()
    assert (files(blobs), files(artifact_store(settings))) == (1, 1)


def test_equal_uploads_of_two_projects_share_bytes_until_the_last_is_deleted(engine, blobs) -> None:
    with UnitOfWork(engine) as uow:
        elsewhere = uow.projects.create("elsewhere").id
    mine, theirs = uploaded(engine, blobs, b"x"), uploaded(engine, blobs, b"x", project=elsewhere)
    for id, project, left in ((mine, "default", 1), (theirs, elsewhere, 0)):
        with UnitOfWork(engine, project=project) as uow:
            delete_upload(uow, uow.uploads.get(id), engine=engine, blobs=blobs)
        assert files(blobs) == left


def test_retention_deletes_what_is_old_and_notes_it(engine, settings, blobs) -> None:
    old, young = (finished(engine, settings, f"{days}", bytes([days]), age_days=days) for days in (40, 20))
    old_upload, young_upload = (uploaded(engine, blobs, bytes([days]), age_days=days) for days in (40, 20))
    in_use = uploaded(engine, blobs, b"in use", age_days=40)
    with UnitOfWork(engine) as uow:
        waiting = uow.analyses.accept(question("waiting", upload_id=in_use), {}).row.id
    orphan = blobs.store([b"nobody's"], size=8)
    an_hour_ago = time.time() - 3700
    os.utime(blobs.path(orphan.sha256), (an_hour_ago, an_hour_ago))
    kept = settings.model_copy(update={"retain_analyses_days": 30, "retain_uploads_days": 30})

    would = retention.sweep(engine, kept, dry_run=True)
    assert (would.analyses, would.uploads, would.orphaned_blobs) == (1, 2, 1)
    assert files(blobs) == 4
    swept = retention.sweep(engine, kept)
    assert (swept.analyses, swept.uploads, swept.orphaned_blobs) == (1, 1, 1)
    assert not any(vars(retention.sweep(engine, kept)).values())

    with UnitOfWork(engine) as uow:
        assert set(uow.session.scalars(select(AnalysisRow.id))) == {young, waiting}
        alive = uow.session.scalars(select(UploadRow.id).where(UploadRow.deleted_at.is_(None)))
        assert set(alive) == {young_upload, in_use}
        noted = uow.session.execute(select(AuditRow.action, AuditRow.subject).where(AuditRow.actor == RETENTION)).all()
    assert sorted(noted) == [("analysis.deleted", old), ("upload.deleted", old_upload)]
    assert files(blobs) == 2
    assert files(artifact_store(settings)) == 1


def test_without_settings_only_the_audit_log_ends(engine, settings, blobs) -> None:
    finished(engine, settings, "a", age_days=5000)
    uploaded(engine, blobs, b"x", age_days=5000)
    with UnitOfWork(engine) as uow:
        uow.audit.note("watch.created", "wat_1")
        uow.audit.note("watch.created", "wat_2")
        uow.session.flush()
        uow.session.execute(update(AuditRow).where(AuditRow.subject == "wat_1").values(at=NOW - timedelta(days=366)))
    assert vars(retention.sweep(engine, settings)) == {
        "analyses": 0,
        "uploads": 0,
        "audit_entries": 1,
        "orphaned_blobs": 0,
    }
    with UnitOfWork(engine) as uow:
        assert list(uow.session.scalars(select(AuditRow.subject))) == ["wat_2"]


def test_what_is_running_is_not_deleted(engine, settings) -> None:
    with UnitOfWork(engine) as uow:
        id = uow.analyses.accept(question("a"), {}).row.id
    with pytest.raises(Conflict, match="queued"):
        remove(engine, settings, id)
    with UnitOfWork(engine) as uow:
        assert uow.session.scalar(select(func.count()).select_from(FileRow)) == 0
        assert uow.session.get(AnalysisRow, id).status == "queued"
