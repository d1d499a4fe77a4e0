"""The toy-model analysis: cells trained one after another, each kept as soon as it is finished.

A sweep that is killed, stopped or has had its turn goes on from its finished cells: those are rows under the fence
(`gramian/storage/toy_cells.py`), with their files, and are never trained again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from typing import Any

import stamina
import torch
from sqlalchemy.exc import InternalError, OperationalError

from gramian.errors import TooFewRows, TrainingDiverged
from gramian.geometry.toy_measures import ToyMeasurement, run_cell
from gramian.geometry.toy_study import ToyCell
from gramian.storage.blobs import StoredFile, artifact_store
from gramian.storage.jobs import Outcome
from gramian.storage.toy_cells import FinishedCell
from gramian.storage.unit_of_work import UnitOfWork
from gramian.toy_answers import setting_answer, sweep_answer
from gramian.toy_specs import ToyModelSpec
from workers.devices import choose_device, device_name
from workers.finish import STORE_SECONDS
from workers.runs import Run, TurnOver
from workers.safetensors_file import safetensors_header

TURN_SECONDS = 900.0  # then others get their turn; and a sweep of days never meets the time limit of a run
OVERHEAD_DIMS = 20  # a step costs about as much as that many dimensions more
WORTH_THREADS = 10**8  # work of a step from which several threads gain more than they lose by waiting for each other


def train_toy_models(run: Run[ToyModelSpec]) -> Outcome:
    """Train every cell that no earlier attempt has finished, then put the series together."""
    device = choose_device(run.settings, required=run.spec.device)
    cells = list(run.spec.cells())
    results = {done.number: done.result for done in _finished(run)}
    clock = _SweepClock(run, cells, finished=results)
    started = time.monotonic()
    turn = min(TURN_SECONDS, run.settings.job_timeout_seconds / 4)
    for number, cell in enumerate(cells):
        if number in results:
            continue
        if time.monotonic() - started > turn:
            raise TurnOver(f"{len(results)} of {len(cells)} cells are finished; others had a turn, then it goes on")
        results[number] = _train(run, number, cell, device, clock)
    run.progress.close()
    return Outcome(
        device=device_name(device),
        torch_version=str(torch.__version__),
        seconds=run.progress.seconds,
        answer=sweep_answer(cells, results),
    )


def _train(
    run: Run[ToyModelSpec], number: int, cell: ToyCell, device: torch.device, clock: "_SweepClock"
) -> dict[str, Any]:
    with UnitOfWork(run.engine) as uow:
        uow.toy_cells.begin(run.id, run.fence, number)
    began = time.perf_counter()
    with _threads(cell):
        found = _trained(number, cell, device, clock)
    result = cell_answer(number, cell, found, seconds=time.perf_counter() - began)
    size = 4 * cell.features * (cell.dims + 1)
    stored = artifact_store(run.settings).store(_file(number, cell, found), size=size)
    _keep(run, number, result, stored)
    clock.finish(cell)
    return result


def _trained(number: int, cell: ToyCell, device: torch.device, clock: "_SweepClock") -> ToyMeasurement:
    why = ""
    try:
        found = run_cell(cell, device=device, progress=clock.watch(cell))
    except TooFewRows as error:
        why = error.message
    else:
        if isfinite(found.loss) and isfinite(found.loss_std):
            return found
        why = f"its loss is {found.loss}"
    raise TrainingDiverged(f"cell {number} (m = {cell.dims}, γ = {cell.weight_decay:g}, seed {cell.seed}): {why}")


def _finished(run: Run[ToyModelSpec]) -> list[FinishedCell]:
    with UnitOfWork(run.engine, writes=False) as uow:
        return uow.toy_cells.finished(run.id)


@stamina.retry(on=(OperationalError, InternalError), attempts=None, timeout=STORE_SECONDS)
def _keep(run: Run[ToyModelSpec], number: int, result: dict[str, Any], stored: StoredFile) -> None:
    with UnitOfWork(run.engine) as uow:
        uow.toy_cells.finish(run.id, run.fence, number, result, name=file_name(number), file=stored)


def file_name(number: int) -> str:
    """Of a cell's W and losses a feature."""
    return f"cell-{number}.safetensors"


def _file(number: int, cell: ToyCell, found: ToyMeasurement) -> Iterator[bytes]:
    shapes = {"W": found.W.shape, "feature_loss": found.feature_loss.shape}
    metadata = {"cell": str(number), "weight_decay": repr(cell.weight_decay), "seed": str(cell.seed)}
    yield safetensors_header(shapes, metadata=metadata)
    yield found.W.astype("<f4", copy=False).tobytes()
    yield found.feature_loss.astype("<f4", copy=False).tobytes()


def cell_answer(number: int, cell: ToyCell, found: ToyMeasurement, *, seconds: float) -> dict[str, Any]:
    """A trained cell in plain values."""
    return setting_answer(cell) | {
        "number": number,
        "dim": cell.dims,
        "seed": cell.seed,
        "steps": cell.plan.steps,
        "batch": cell.plan.batch,
        "loss": found.loss,
        "loss_std": found.loss_std,
        "represented": found.represented,
        "represented_fraction": found.represented_fraction,
        "norm": asdict(found.norms),
        "norm_split": asdict(found.norm_split),
        "mean_squared_overlap": found.mean_squared_overlap,
        "overlap_times_dim": found.overlap_times_dim,
        "welch_floor": found.welch_floor,
        "random_overlap": 1 / cell.dims,
        "equiangularity": asdict(found.equiangularity) if found.equiangularity else None,
        "regime": found.regime,
        "dead": found.dead,
        "ignored_loss": found.ignored_loss,
        "short_rows_loss": found.short_rows_loss,
        "seconds": round(seconds, 3),
    }


class _SweepClock:
    """How far a whole sweep is, by the work of its cells: those of earlier attempts count as done."""

    def __init__(self, run: Run[ToyModelSpec], cells: list[ToyCell], *, finished: Mapping[int, Any]) -> None:
        self._run, self._cells = run, len(cells)
        self._total_work = sum(_work(cell) * cell.plan.steps for cell in cells)
        self._total_steps = sum(cell.plan.steps for cell in cells)
        self._work = self._steps = self._finished = 0
        for number in finished:
            self.finish(cells[number])
        run.progress.begin_at(self._work / self._total_work)

    def watch(self, cell: ToyCell) -> Callable[[int], None]:
        law = setting_answer(cell)
        named = "".join(f", {name} {law[name]:g}" for name in ("exponent", "scale") if law[name] is not None)
        setting = f"m = {cell.dims}, γ = {cell.weight_decay:g}{named}, seed {cell.seed}"
        work = _work(cell)

        def watch(step: int) -> None:
            fraction = (self._work + step * work) / self._total_work
            message = (
                f"{self._finished} of {self._cells} cells finished; {setting}: step {step:,} of {cell.plan.steps:,}"
            )
            done = self._steps + step
            self._run.progress("train", fraction, message, done=done, total=self._total_steps, unit="steps")

        return watch

    def finish(self, cell: ToyCell) -> None:
        self._work += _work(cell) * cell.plan.steps
        self._steps += cell.plan.steps
        self._finished += 1


@contextmanager
def _threads(cell: ToyCell) -> Iterator[None]:
    """One thread for a small cell: on a busy machine its steps would mostly wait for the other threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if _work(cell) >= WORTH_THREADS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _work(cell: ToyCell) -> int:
    return cell.plan.batch * cell.features * (cell.dims + OVERHEAD_DIMS)
