"""Files that analyses make: there with the row that refers to them, gone where no row does."""

import os
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine

from gramian.errors import LeaseLost, NotFound, StorageFull
from gramian.settings import Settings
from gramian.storage.blobs import BlobStore, artifact_store
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import SHORT, claim, expire_lease, outcome
from workers.artifacts import UNCLAIMED_SECONDS, sweep_artifacts


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, disk_reserve_bytes=0)


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_file_is_found_with_the_analysis_that_made_it(engine: Engine, accept, settings: Settings) -> None:
    file = artifact_store(settings).store([b"abc", b"def"], size=6)
    id = accept()
    fence = claim(engine, id)
    with UnitOfWork(engine) as uow:
        with pytest.raises(NotFound, match="made"):
            uow.files.get(uow.analyses.get(id), "made")
        uow.jobs.succeed(id, fence, outcome(answer={"x": 1.5}, files={"made": file}), gramian_version="0")
    with UnitOfWork(engine) as uow:
        row = uow.analyses.get(id)
        assert row.answer == {"x": 1.5}
        assert uow.files.get(row, "made") == file
        with pytest.raises(NotFound):
            uow.files.get(row, "other\0")
    assert artifact_store(settings).path(file.sha256).read_bytes() == b"abcdef"


def test_only_old_files_that_no_analysis_has_are_swept(engine: Engine, accept, settings: Settings) -> None:
    store = artifact_store(settings)
    kept, lost, fresh = (store.store([text], size=1) for text in (b"kept", b"lost", b"fresh"))
    id = accept()
    stale = claim(engine, id)
    expire_lease(engine, id)
    current = claim(engine, id, lease_seconds=SHORT)
    with pytest.raises(LeaseLost), UnitOfWork(engine) as uow:
        uow.jobs.succeed(id, stale, outcome(files={"made": lost}), gramian_version="0")
    with UnitOfWork(engine) as uow:
        uow.jobs.succeed(id, current, outcome(files={"made": kept}), gramian_version="0")
    for file in (kept, lost):
        age(store.path(file.sha256), UNCLAIMED_SECONDS + 1)
    sweep_artifacts(engine, settings)
    assert [store.path(file.sha256).exists() for file in (kept, lost, fresh)] == [True, False, True]


def test_what_was_cut_off_is_swept_and_what_is_being_written_is_not(engine: Engine, settings: Settings) -> None:
    store = artifact_store(settings)
    written = store.receive()
    written.write(b"half")
    dead = store.root / "incoming" / "dead"
    dead.write_bytes(b"half")
    for path in (written.path, dead):
        age(path, UNCLAIMED_SECONDS + 1)
    recent = store.root / "incoming" / "recent"
    recent.write_bytes(b"")
    sweep_artifacts(engine, settings)
    assert [path.exists() for path in (written.path, dead, recent)] == [True, False, True]
    written.discard()


def test_an_error_while_a_file_is_written_leaves_nothing(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)

    def chunks():
        yield b"a"
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        store.store(chunks(), size=1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_that_would_fill_the_disk_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(StorageFull):
        BlobStore(tmp_path).store([b""], size=2**60)
