"""The toy-model analysis: its cells are trained one by one, each kept once it is finished; others may help.

A sweep that is killed, stopped or has had its turn goes on from its finished cells: those are rows under a claim
(`gramian/storage/toy_cells.py`), with their files, and are never trained again.
"""

import time
from collections.abc import Callable
from typing import Any

import stamina
import torch
from sqlalchemy.exc import InternalError, OperationalError, SQLAlchemyError

from gramian.geometry.toy_study import ToyCell
from gramian.projects import EVERY
from gramian.queues import Device
from gramian.storage.jobs import Outcome
from gramian.storage.toy_cells import CellClaim
from gramian.storage.unit_of_work import UnitOfWork
from gramian.toy_answers import setting_answer, sweep_answer
from gramian.toy_specs import ToyModelSpec
from workers.devices import choose_device, device_name
from workers.finish import STORE_SECONDS
from workers.queue import ask_for_help
from workers.runs import Run, TurnOver
from workers.toy_cell import train_cell, work_of

TURN_SECONDS = 900.0  # then others get their turn; and a sweep of days never meets the time limit of a run
LOOK_SECONDS = 2.0  # between looks, while a cell is trained, at what helpers have finished
WAIT_SECONDS = 0.25  # between looks when only helpers still train


def train_toy_models(run: Run[ToyModelSpec]) -> Outcome:
    """Train every cell that is not finished and that no helper trains, then put the series together."""
    device = choose_device(run.settings, required=run.spec.device)
    cells = list(run.spec.cells())
    clock = _SweepClock(run, cells, finished=_finished(run))
    started = time.monotonic()
    turn = min(TURN_SECONDS, run.settings.job_timeout_seconds / 4)
    kind: Device = "cuda" if device.type == "cuda" else "cpu"  # cells of one sweep are to be alike
    ask_for_help(run.settings, run.id, kind, helpers=clock.left - 1)
    while clock.left:
        if time.monotonic() - started > turn:
            done = len(cells) - clock.left
            raise TurnOver(f"{done} of {len(cells)} cells are finished; others had a turn, then it goes on")
        if claim := _take(run, len(cells)):
            cell = cells[claim.number]
            train_cell(run.engine, run.settings, claim, cell, device=device, progress=clock.watch(cell))
        else:
            clock.wait()
        clock.count(_finished(run))
    run.progress.close()
    return Outcome(
        device=device_name(device),
        torch_version=str(torch.__version__),
        seconds=run.progress.seconds,
        answer=sweep_answer(cells, _results(run)),
    )


_patient = stamina.retry(on=(OperationalError, InternalError), attempts=None, timeout=STORE_SECONDS)


@_patient
def _take(run: Run[ToyModelSpec], cells: int) -> CellClaim | None:
    with UnitOfWork(run.engine, project=EVERY) as uow:
        return uow.toy_cells.take(run.id, run.fence, cells=cells, lease_seconds=run.settings.lease_seconds)


@_patient
def _finished(run: Run[ToyModelSpec]) -> set[int]:
    with UnitOfWork(run.engine, project=EVERY, writes=False) as uow:
        return uow.toy_cells.finished_numbers(run.id)


@_patient
def _results(run: Run[ToyModelSpec]) -> dict[int, dict[str, Any]]:
    with UnitOfWork(run.engine, project=EVERY, writes=False) as uow:
        return {done.number: done.result for done in uow.toy_cells.finished(run.id)}


class _SweepClock:
    """How far a whole sweep is, by the work of its cells, whoever trained them, in whichever attempt.

    Of the cells that helpers train only finished ones count.
    """

    def __init__(self, run: Run[ToyModelSpec], cells: list[ToyCell], *, finished: set[int]) -> None:
        self._run, self._cells = run, cells
        self._total_work = sum(work_of(cell) * cell.plan.steps for cell in cells)
        self._total_steps = sum(cell.plan.steps for cell in cells)
        self.count(finished)
        run.progress.begin_at(self._work / self._total_work)

    @property
    def left(self) -> int:
        """How many cells are not finished."""
        return len(self._cells) - self._finished

    def count(self, finished: set[int]) -> None:
        """Take note of which cells are finished."""
        done = [self._cells[number] for number in finished]
        self._work = sum(work_of(cell) * cell.plan.steps for cell in done)
        self._steps = sum(cell.plan.steps for cell in done)
        self._finished = len(done)
        self._looked = time.monotonic()

    def watch(self, cell: ToyCell) -> Callable[[int], None]:
        """What the training of a cell tells of its steps."""
        law = setting_answer(cell)
        named = "".join(f", {name} {law[name]:g}" for name in ("exponent", "scale") if law[name] is not None)
        setting = f"m = {cell.dims}, γ = {cell.weight_decay:g}{named}, seed {cell.seed}"
        work = work_of(cell)

        def watch(step: int) -> None:
            self._look()
            self._tell(step * work, step, f"{setting}: step {step:,} of {cell.plan.steps:,}")

        return watch

    def wait(self) -> None:
        """Let helpers train what is left."""
        self._tell(0, 0, "waiting for those that other workers train")
        time.sleep(WAIT_SECONDS)

    def _tell(self, work: int, steps: int, words: str) -> None:
        self._run.progress(
            "train",
            (self._work + work) / self._total_work,
            f"{self._finished} of {len(self._cells)} cells finished; {words}",
            done=self._steps + steps,
            total=self._total_steps,
            unit="steps",
        )

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            with UnitOfWork(self._run.engine, project=EVERY, writes=False) as uow:
                finished = uow.toy_cells.finished_numbers(self._run.id)
        except SQLAlchemyError:  # told later
            return
        self.count(finished)
