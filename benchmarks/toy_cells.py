"""Trains the cells of presets and keeps a CSV of what they showed, one line a cell; what is there is not run again."""

import csv
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path

import torch

from gramian.geometry.frequencies import PowerLaw
from gramian.geometry.toy_measures import ToyMeasurement, run_cell
from gramian.geometry.toy_study import ToyCell


@dataclass(frozen=True)
class Row:
    """A cell and what it showed. Values as in `gramian.geometry.toy_study` and `toy_measures`; power laws only."""

    # what was asked
    features: int
    dims: int
    weight_decay: float
    exponent: float
    density: float
    seed: int
    steps: int
    warmup_steps: int
    batch: int
    bias_std: float
    # what was found
    loss: float
    loss_std: float
    represented: int
    dead: int
    norm_mean: float
    norm_between: float
    overlap_times_dim: float
    floor_times_dim: float
    cosine_welch: float
    cosine_mean: float
    cosine_std: float
    ignored_loss: float
    short_rows_loss: float
    regime: str
    # by what
    seconds: float
    gramian: str
    torch: str

    @property
    def question(self) -> tuple[float, ...]:
        """What tells cells from each other."""
        return tuple(getattr(self, name) for name in ASKED)


ASKED = tuple(field.name for field in fields(Row))[:10]
MISSING = float("nan")


def run(cells: Iterable[ToyCell], table: Path) -> Iterator[Row]:
    """Train what `table` lacks, append each line as it comes, and yield all lines of these cells."""
    done = {row.question: row for row in read(table)}
    for cell in cells:
        question = _question(cell)
        if question not in done:
            started = time.perf_counter()
            found = run_cell(cell)
            done[question] = row = _row(question, found, time.perf_counter() - started)
            _append(table, row)
        yield done[question]


def read(table: Path) -> list[Row]:
    if not table.exists():
        return []
    types = {field.name: field.type for field in fields(Row)}
    with table.open(newline="") as file:
        return [Row(**{name: types[name](text) for name, text in line.items()}) for line in csv.DictReader(file)]  # type: ignore[operator]


def _append(table: Path, row: Row) -> None:
    new = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(row).items()})


def _question(cell: ToyCell) -> tuple[float, ...]:
    assert isinstance(cell.law, PowerLaw), "the table has a column for the exponent of a power law only"
    plan = cell.plan
    of_the_plan = (plan.steps, plan.warmup_steps, plan.batch, plan.bias_std)
    return (cell.features, cell.dims, cell.weight_decay, cell.law.exponent, cell.density, cell.seed, *of_the_plan)


def _row(question: tuple[float, ...], found: ToyMeasurement, seconds: float) -> Row:
    etf = found.equiangularity
    between = found.norm_split.between
    return Row(
        **dict(zip(ASKED, question, strict=True)),  # type: ignore[arg-type]
        loss=found.loss,
        loss_std=found.loss_std,
        represented=found.represented,
        dead=found.dead,
        norm_mean=found.norms.mean,
        norm_between=MISSING if between is None else between,
        overlap_times_dim=found.overlap_times_dim,
        floor_times_dim=found.dims * found.welch_floor,
        cosine_welch=etf.welch if etf else MISSING,
        cosine_mean=etf.mean if etf else MISSING,
        cosine_std=etf.std if etf else MISSING,
        ignored_loss=found.ignored_loss,
        short_rows_loss=found.short_rows_loss,
        regime=found.regime,
        seconds=round(seconds, 1),
        gramian=_code_version(),
        torch=torch.__version__,
    )


def _code_version() -> str:
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return f"{version('gramian')} {commit.stdout.strip()}".strip()
