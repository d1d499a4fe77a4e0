"""One cell of a toy-model sweep: trained, measured, and kept under its claim at once."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from typing import Any

import stamina
import torch
from sqlalchemy import Engine
from sqlalchemy.exc import InternalError, OperationalError

from gramian.errors import TooFewRows, TrainingDiverged
from gramian.geometry.toy_measures import ToyMeasurement, run_cell
from gramian.geometry.toy_study import ToyCell
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage.blobs import StoredFile, artifact_store
from gramian.storage.toy_cells import CellClaim
from gramian.storage.unit_of_work import UnitOfWork
from gramian.toy_answers import setting_answer
from workers.finish import STORE_SECONDS
from workers.safetensors_file import safetensors_header

OVERHEAD_DIMS = 20  # a step costs about as much as that many dimensions more
WORTH_THREADS = 10**8  # work of a step from which several threads gain more than they lose by waiting for each other


def train_cell(
    engine: Engine,
    settings: Settings,
    claim: CellClaim,
    cell: ToyCell,
    *,
    device: torch.device,
    progress: Callable[[int], None],
) -> None:
    """Train the cell and keep what it showed, or raise LeaseLost; `progress` is told of every step."""
    began = time.perf_counter()
    with _threads(cell):
        found = _trained(claim.number, cell, device, progress)
    result = cell_answer(claim.number, cell, found, seconds=time.perf_counter() - began)
    size = 4 * cell.features * (cell.dims + 1)
    stored = artifact_store(settings).store(_file(claim.number, cell, found), size=size)
    _keep(engine, claim, result, stored)


def _trained(number: int, cell: ToyCell, device: torch.device, progress: Callable[[int], None]) -> ToyMeasurement:
    why = ""
    try:
        found = run_cell(cell, device=device, progress=progress)
    except TooFewRows as error:
        why = error.message
    else:
        if isfinite(found.loss) and isfinite(found.loss_std):
            return found
        why = f"its loss is {found.loss}"
    raise TrainingDiverged(f"cell {number} (m = {cell.dims}, γ = {cell.weight_decay:g}, seed {cell.seed}): {why}")


@stamina.retry(on=(OperationalError, InternalError), attempts=None, timeout=STORE_SECONDS)
def _keep(engine: Engine, claim: CellClaim, result: dict[str, Any], stored: StoredFile) -> None:
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.toy_cells.finish(claim, result, name=file_name(claim.number), file=stored)


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


def work_of(cell: ToyCell) -> int:
    """What a step costs, in units of its own."""
    return cell.plan.batch * cell.features * (cell.dims + OVERHEAD_DIMS)


@contextmanager
def _threads(cell: ToyCell) -> Iterator[None]:
    """One thread for a small cell: on a busy machine its steps would mostly wait for the other threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if work_of(cell) >= WORTH_THREADS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
