"""Cells of a sweep: counted, kept once, and only under the fence."""

import pytest
from sqlalchemy import Engine, select

from gramian.errors import LeaseLost
from gramian.storage.blobs import StoredFile
from gramian.storage.tables import AnalysisRow, FileRow
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import claim, expire_lease

FILE = StoredFile("0" * 64, 10)


def finish(engine: Engine, id: str, fence: int, number: int, **result: object) -> None:
    with UnitOfWork(engine) as uow:
        uow.toy_cells.finish(id, fence, number, result, name=f"cell-{number}.safetensors", file=FILE)


def begin(engine: Engine, id: str, fence: int, number: int) -> None:
    with UnitOfWork(engine) as uow:
        uow.toy_cells.begin(id, fence, number)


def kept(engine: Engine, id: str) -> dict[int, tuple[dict[str, object], int]]:
    with UnitOfWork(engine, writes=False) as uow:
        return {cell.number: (cell.result, cell.attempts) for cell in uow.toy_cells.finished(id)}


def test_finished_cells_are_kept_and_attempts_counted(engine: Engine, accept) -> None:
    id = accept()
    fence = claim(engine, id)
    for number in (0, 1, 1, 2):
        begin(engine, id, fence, number)
    finish(engine, id, fence, 0, loss=0.5)
    finish(engine, id, fence, 1, loss=0.25)
    assert kept(engine, id) == {0: ({"loss": 0.5}, 1), 1: ({"loss": 0.25}, 2)}
    with UnitOfWork(engine, writes=False) as uow:
        assert uow.files.used([FILE.sha256]) == {FILE.sha256}


def test_finishing_twice_after_an_unclear_commit_changes_nothing(engine: Engine, accept) -> None:
    id = accept()
    fence = claim(engine, id)
    begin(engine, id, fence, 0)
    finish(engine, id, fence, 0, loss=0.5)
    finish(engine, id, fence, 0, loss=0.7)
    assert kept(engine, id) == {0: ({"loss": 0.5}, 1)}
    with UnitOfWork(engine, writes=False) as uow:
        assert len(uow.session.scalars(select(FileRow).where(FileRow.analysis_id == id)).all()) == 1


def test_a_late_writer_keeps_nothing(engine: Engine, accept) -> None:
    id = accept()
    late = claim(engine, id)
    begin(engine, id, late, 0)
    expire_lease(engine, id)
    now = claim(engine, id, lease_seconds=0.01)
    assert now == late + 1
    with pytest.raises(LeaseLost):
        finish(engine, id, late, 0, loss=0.5)
    with pytest.raises(LeaseLost):
        begin(engine, id, late, 1)
    assert kept(engine, id) == {}


def test_a_finished_cell_clears_the_count_of_crashes(engine: Engine, accept) -> None:
    id = accept()
    claim(engine, id)
    expire_lease(engine, id)
    fence = claim(engine, id, lease_seconds=0.01)
    begin(engine, id, fence, 0)
    finish(engine, id, fence, 0, loss=0.5)
    with UnitOfWork(engine, writes=False) as uow:
        assert uow.session.get(AnalysisRow, id).deliveries == 1
