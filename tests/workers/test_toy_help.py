"""Helping with a sweep, in the process of the test: what is trained, and what is left to the run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, select

from gramian.settings import Settings
from gramian.storage.tables import ToyCellRow
from gramian.storage.unit_of_work import UnitOfWork
from gramian.toy_specs import ToyModelSpec
from tests.storage.questions import claim, question
from workers import process, toy_help
from workers.outcomes import Ending

SWEEP = {
    "kind": "toy_model",
    "features": 20,
    "dims": [2, 3, 4],
    "weight_decay": -1.0,
    "frequencies": {"law": "power", "exponent": 1.0},
    "batch": 16,
    "steps": 20,
}
WILD = {"weight_decay": 10.0, "learning_rate": 1.0, "warmup_steps": 0, "steps": 200}


class Sweep:
    """A sweep that a run holds, and helpers of it."""

    def __init__(self, engine: Engine, **changes: Any) -> None:
        self.engine = engine
        spec = ToyModelSpec.model_validate(SWEEP | changes)
        with UnitOfWork(engine) as uow:
            asked = question(kind="toy_model", spec=spec.model_dump(mode="json"))
            self.id = uow.analyses.accept(asked, {}).row.id
        self.fence = claim(engine, self.id)

    def help(self) -> Ending:
        process.ending().set(Ending.NOTHING_TO_DO)
        toy_help.help_analysis(self.id, "cpu")
        return process.ending().get()

    def cells(self) -> dict[int, SimpleNamespace]:
        query = select(ToyCellRow).where(ToyCellRow.analysis_id == self.id).order_by(ToyCellRow.number)
        with UnitOfWork(self.engine, writes=False) as uow:
            return {
                cell.number: SimpleNamespace(attempts=cell.attempts, lease=cell.lease_until, result=cell.result)
                for cell in uow.session.scalars(query)
            }

    def taken_by_the_run(self) -> int | None:
        assert self.fence is not None
        with UnitOfWork(self.engine) as uow:
            cell = uow.toy_cells.take(self.id, self.fence, cells=3, lease_seconds=0.01)
        return cell.number if cell else None


@pytest.fixture(autouse=True)
def here(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The worker's process is this one; how much help was asked for."""
    settings, asked = Settings(data_dir=tmp_path, device="cpu", redis_url=None), []
    monkeypatch.setattr(process, "engine", lambda: engine)
    monkeypatch.setattr(process, "settings", lambda: settings)
    monkeypatch.setattr(toy_help, "ask_for_help", lambda *_, helpers: asked.append(helpers))
    return asked


def test_a_helper_trains_what_the_run_does_not(engine: Engine) -> None:
    sweep = Sweep(engine)
    assert sweep.taken_by_the_run() == 0
    assert sweep.help() == Ending.SUCCEEDED
    found = sweep.cells()
    assert {number: cell.attempts for number, cell in found.items()} == {0: 1, 1: 1, 2: 1}
    assert found[0].result is None
    assert [found[number].result["dim"] for number in (1, 2)] == [3, 4]
    assert sweep.help() == Ending.NOTHING_TO_DO


def test_a_helper_whose_turn_is_over_asks_for_another(engine: Engine, here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_help, "TURN_SECONDS", 0.0)
    sweep = Sweep(engine)
    assert sweep.help() == Ending.SUCCEEDED
    assert (len(sweep.cells()), here) == (1, [1])


def test_a_cell_that_diverges_is_left_to_the_run(engine: Engine) -> None:
    sweep = Sweep(engine, **WILD)
    assert sweep.help() == Ending.FAILED
    ((number, cell),) = sweep.cells().items()
    assert (number, cell.attempts, cell.lease, cell.result) == (0, 1, 0.0, None)
    assert sweep.taken_by_the_run() == 0


def test_a_sweep_that_is_over_meanwhile_keeps_nothing_of_its_helper(engine: Engine, monkeypatch) -> None:
    sweep = Sweep(engine)

    def cancelled_meanwhile(*given: Any, **more: Any) -> None:
        with UnitOfWork(engine) as uow:
            uow.analyses.cancel(sweep.id)
        train_cell(*given, **more)

    train_cell = toy_help.train_cell
    monkeypatch.setattr(toy_help, "train_cell", cancelled_meanwhile)
    assert sweep.help() == Ending.LEASE_LOST
    assert [cell.result for cell in sweep.cells().values()] == [None]
