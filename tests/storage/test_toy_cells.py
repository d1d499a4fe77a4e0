"""Cells of a sweep: counted, kept once, and only under a claim that stands."""

import pytest
from sqlalchemy import Engine, select, update

from gramian.errors import LeaseLost
from gramian.storage.blobs import StoredFile
from gramian.storage.tables import AnalysisRow, FileRow, ToyCellRow
from gramian.storage.toy_cells import CellClaim
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import ERROR, SHORT, claim, expire_lease

FILE = StoredFile("0" * 64, 10)
CELLS = 3


def finish(engine: Engine, cell: CellClaim, **result: object) -> None:
    with UnitOfWork(engine) as uow:
        uow.toy_cells.finish(cell, result, name=f"cell-{cell.number}.safetensors", file=FILE)


def take(engine: Engine, id: str, fence: int) -> CellClaim | None:
    with UnitOfWork(engine) as uow:
        return uow.toy_cells.take(id, fence, cells=CELLS, lease_seconds=SHORT)


def help_with(engine: Engine, id: str) -> CellClaim | None:
    with UnitOfWork(engine) as uow:
        return uow.toy_cells.help(id, cells=CELLS, lease_seconds=30)


def run_out(engine: Engine, cell: CellClaim) -> None:
    with UnitOfWork(engine) as uow:
        mine = (ToyCellRow.analysis_id == cell.analysis_id, ToyCellRow.number == cell.number)
        uow.session.execute(update(ToyCellRow).where(*mine).values(lease_until=1.0))


def stands(engine: Engine, cell: CellClaim) -> bool:
    with UnitOfWork(engine, writes=False) as uow:
        return uow.toy_cells.owns(cell)


def kept(engine: Engine, id: str) -> dict[int, tuple[dict[str, object], int]]:
    with UnitOfWork(engine, writes=False) as uow:
        found = {cell.number: (cell.result, cell.attempts) for cell in uow.toy_cells.finished(id)}
        assert uow.toy_cells.finished_numbers(id) == set(found)
        return found


@pytest.fixture
def running(engine: Engine, accept) -> tuple[str, int]:
    id = accept()
    fence = claim(engine, id)
    assert fence is not None
    return id, fence


def test_finished_cells_are_kept_and_attempts_counted(engine: Engine, running) -> None:
    first = take(engine, *running)
    finish(engine, first, loss=0.5)
    take(engine, *running)  # as one whose answer was lost
    finish(engine, take(engine, *running), loss=0.25)
    assert kept(engine, running[0]) == {0: ({"loss": 0.5}, 1), 1: ({"loss": 0.25}, 2)}
    with UnitOfWork(engine, writes=False) as uow:
        assert uow.files.used([FILE.sha256]) == {FILE.sha256}


def test_finishing_twice_after_an_unclear_commit_changes_nothing(engine: Engine, running) -> None:
    cells = [take(engine, *running), help_with(engine, running[0])]
    for cell in cells:
        finish(engine, cell, loss=0.5)
        finish(engine, cell, loss=0.7)
    assert kept(engine, running[0]) == dict.fromkeys((0, 1), ({"loss": 0.5}, 1))
    with UnitOfWork(engine, writes=False) as uow:
        assert len(uow.session.scalars(select(FileRow).where(FileRow.analysis_id == running[0])).all()) == 2


def test_a_late_writer_keeps_nothing(engine: Engine, running) -> None:
    id, late = running
    cell = take(engine, id, late)
    expire_lease(engine, id)
    assert claim(engine, id, lease_seconds=SHORT) == late + 1
    with pytest.raises(LeaseLost):
        finish(engine, cell, loss=0.5)
    with pytest.raises(LeaseLost):
        take(engine, id, late)
    assert kept(engine, id) == {}


def test_a_finished_cell_clears_the_count_of_crashes(engine: Engine, accept) -> None:
    id = accept()
    claim(engine, id)
    expire_lease(engine, id)
    fence = claim(engine, id, lease_seconds=SHORT)
    finish(engine, take(engine, id, fence), loss=0.5)
    with UnitOfWork(engine, writes=False) as uow:
        assert uow.session.get(AnalysisRow, id).deliveries == 1


# -- helpers --------------------------------------------------------------------------------------------------


def test_the_run_and_its_helpers_train_different_cells(engine: Engine, running) -> None:
    id, fence = running
    cells = [take(engine, id, fence), help_with(engine, id), help_with(engine, id)]
    assert [cell.number for cell in cells] == [0, 1, 2]
    assert help_with(engine, id) is None
    for cell in cells:
        finish(engine, cell, loss=cell.number)
    assert take(engine, id, fence) is None
    assert kept(engine, id) == {number: ({"loss": number}, 1) for number in range(CELLS)}


def test_what_waits_or_has_ended_is_not_helped_with(engine: Engine, accept) -> None:
    id = accept()
    assert help_with(engine, id) is None
    fence = claim(engine, id)
    with UnitOfWork(engine) as uow:
        uow.jobs.fail(id, fence, ERROR)
    assert help_with(engine, id) is None


def test_a_helper_outlives_the_run_that_asked(engine: Engine, running) -> None:
    id, fence = running
    mine, helped = take(engine, id, fence), help_with(engine, id)
    with UnitOfWork(engine) as uow:
        uow.jobs.release(id, fence, "stopped")
    assert stands(engine, helped)
    finish(engine, helped, loss=0.5)
    again = claim(engine, id)
    assert kept(engine, id) == {1: ({"loss": 0.5}, 1)}
    assert take(engine, id, again) == CellClaim(id, mine.number, 2, again)


def test_a_cell_of_a_run_that_is_gone_is_free_to_helpers_once_another_run_began(engine: Engine, running) -> None:
    id, fence = running
    mine = take(engine, id, fence)
    expire_lease(engine, id)
    assert help_with(engine, id).number == 1
    claim(engine, id, lease_seconds=SHORT)
    assert help_with(engine, id) == CellClaim(id, mine.number, 2)


def test_a_cell_whose_helper_is_gone_is_left_to_the_run(engine: Engine, running) -> None:
    id, fence = running
    gone = help_with(engine, id)
    assert take(engine, id, fence).number == 1
    run_out(engine, gone)
    assert help_with(engine, id).number == 2
    assert take(engine, id, fence) == CellClaim(id, gone.number, 2, fence)
    assert not stands(engine, gone)
    with pytest.raises(LeaseLost):
        finish(engine, gone, loss=0.5)
    expire_lease(engine, id)
    claim(engine, id, lease_seconds=SHORT)
    assert help_with(engine, id).number == 1  # what the run before had begun; never again the cell that failed a helper


def test_a_renewed_cell_is_not_taken_over(engine: Engine, running) -> None:
    id, fence = running
    helped = help_with(engine, id)
    run_out(engine, helped)
    with UnitOfWork(engine) as uow:
        assert uow.toy_cells.renew(helped, lease_seconds=30)
    assert take(engine, id, fence).number == 1


def test_a_cell_that_is_given_back_is_free_and_one_that_is_left_is_the_runs(engine: Engine, running) -> None:
    id, fence = running
    back, left = help_with(engine, id), help_with(engine, id)
    with UnitOfWork(engine) as uow:
        assert uow.toy_cells.give_back(back)
        assert uow.toy_cells.leave(left)
    assert [help_with(engine, id).number, help_with(engine, id).number] == [0, 2]
    assert help_with(engine, id) is None
    assert take(engine, id, fence).number == left.number


def test_helpers_of_a_cancelled_sweep_keep_nothing(engine: Engine, running) -> None:
    id, _ = running
    helped = help_with(engine, id)
    with UnitOfWork(engine) as uow:
        uow.analyses.cancel(id)
    assert not stands(engine, helped)
    with pytest.raises(LeaseLost):
        finish(engine, helped, loss=0.5)
    assert kept(engine, id) == {}


def test_what_a_helper_finished_cannot_be_given_back(engine: Engine, running) -> None:
    helped = help_with(engine, running[0])
    finish(engine, helped, loss=0.5)
    with UnitOfWork(engine) as uow:
        assert not uow.toy_cells.give_back(helped)
        assert not uow.toy_cells.leave(helped)
    assert stands(engine, helped)  # its process need not end for that
