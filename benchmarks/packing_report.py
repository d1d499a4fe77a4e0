"""The tables of docs/packings.md, computed from the campaign's cells and from what was published."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import log
from pathlib import Path

from gramian.errors import GeometryError
from gramian.geometry.baselines import welch_bound
from gramian.geometry.codes import lines
from gramian.geometry.packing_fit import RELATIONS, PackingFit, PackingForm, fit_packing, log10_vectors
from gramian.geometry.published import PUBLISHED_CAPACITIES
from gramian.geometry.published_packings import OPTIMISED

ROOT = Path(__file__).parents[1]
CAMPAIGN = ROOT / "docs" / "packings" / "campaign.csv"
PAGE = ROOT / "docs" / "packings.md"

PUBLISHED = {(point.vectors, point.dim): point.epsilon for point in OPTIMISED}


@dataclass(frozen=True)
class Cell:
    """One packing of the campaign."""

    vectors: int
    dim: int
    epsilon: float
    steps: int
    seed: int
    seconds: float
    code: str  # the commit that it was found with

    @property
    def published(self) -> float:
        return PUBLISHED[self.vectors, self.dim]

    @property
    def ratio_constant(self) -> float:
        """C for which the `ratio` form meets this cell."""
        return _ratio_constant(self.vectors, self.dim, self.epsilon)


def read_cells(path: Path = CAMPAIGN) -> list[Cell]:
    """The committed campaign."""
    with path.open(newline="") as file:
        return [
            Cell(
                vectors=int(row["vectors"]),
                dim=int(row["dim"]),
                epsilon=float(row["epsilon"]),
                steps=int(row["steps"]),
                seed=int(row["seed"]),
                seconds=float(row["seconds"]),
                code=row["code"],
            )
            for row in csv.DictReader(file)
        ]


def write_cells(cells: Iterable[Cell], path: Path = CAMPAIGN) -> None:
    """Write cells as CSV, a header first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = [field.name for field in fields(Cell)]
        writer.writerow(names)
        writer.writerows([getattr(cell, name) for name in names] for cell in cells)


def refits(cells: Sequence[Cell]) -> Mapping[PackingForm, PackingFit]:
    """Every relation fitted to the campaign."""
    points = [(cell.vectors, cell.dim, cell.epsilon) for cell in cells]
    return {form: fit_packing(points, form) for form in RELATIONS}


def tables(cells: Sequence[Cell]) -> dict[str, str]:
    """Every generated table of the page, by the name of its place."""
    found = refits(cells)
    return {
        "campaign": _campaign(cells),
        "fits": _fits(found, cells),
        "covariances": _covariances(found),
        "residuals": _residuals(found, cells),
        "models": _models(found),
    }


def render(page: str, made: Mapping[str, str]) -> str:
    """The page with each table set anew between its markers."""
    for name, table in made.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, places = place.subn(lambda match, table=table: f"{match[1]}{table}{match[2]}", page)  # type: ignore[misc]
        if places != 1:
            raise ValueError(f"the page has {places} places for the table {name!r}")
    return page


# -- tables ---------------------------------------------------------------------------------------------------


def _campaign(cells: Sequence[Cell]) -> str:
    return _markdown(
        ["k", "d", "k/d", "Welch", "published ε*", "here ε*", "here/published", "here/Welch", "C published", "C here",
         "best explicit lines"],
        [
            [
                cell.vectors,
                cell.dim,
                f"{cell.vectors / cell.dim:.1f}",
                f"{welch_bound(cell.vectors, cell.dim):.5f}",
                f"{cell.published:.5f}",
                f"{cell.epsilon:.5f}",
                f"{cell.epsilon / cell.published:.3f}",
                f"{cell.epsilon / welch_bound(cell.vectors, cell.dim):.3f}",
                f"{_ratio_constant(cell.vectors, cell.dim, cell.published):.3f}",
                f"{cell.ratio_constant:.3f}",
                _explicit(cell),
            ]
            for cell in cells
        ],
    )  # fmt: skip


def _explicit(cell: Cell) -> str:
    """The smallest ε at which `lines` has k lines in d dimensions."""
    for halvings in range(cell.dim.bit_length(), 0, -1):
        try:
            found = lines(cell.dim, 2.0**-halvings)
        except GeometryError:
            continue
        if found.count >= cell.vectors:
            return f"**{found.epsilon:.5f}**" if found.epsilon < cell.epsilon else f"{found.epsilon:.5f}"
    return "none"


def _fits(found: Mapping[PackingForm, PackingFit], cells: Sequence[Cell]) -> str:
    rows = []
    for form, here in found.items():
        there = fit_packing(OPTIMISED, form, exclude_k_up_to_d=True)
        off = [abs(here.epsilon(cell.vectors, cell.dim) / cell.epsilon - 1) for cell in cells]
        rows.append(
            [f"`{form}`", _constants(there), f"{there.mape:.1f} %", _constants(here), f"{here.r2:.5f}",
             f"{here.mape:.2f} %", f"{100 * max(off):.1f} %"]
        )  # fmt: skip
    heading = ["form", "published packings, k > d", "MAPE", f"these {len(cells)}", "R²", "MAPE", "largest"]
    return _markdown(heading, rows)


def _constants(fit: PackingFit) -> str:
    return ", ".join(f"{name} = {value:.4g} ± {fit.standard_errors[name]:.2g}" for name, value in fit.constants.items())


def _covariances(found: Mapping[PackingForm, PackingFit]) -> str:
    rows = []
    for form, fit in found.items():
        matrix = "; ".join(" ".join(f"{entry:.3g}" for entry in row) for row in fit.covariance)
        rows.append([f"`{form}`", ", ".join(fit.constants), matrix])
    return _markdown(["form", "order", "covariance, row by row"], rows)


def _residuals(found: Mapping[PackingForm, PackingFit], cells: Sequence[Cell]) -> str:
    return _markdown(
        ["d", "k", "k/d", *(f"`{form}`" for form in found)],
        [
            [
                cell.dim,
                cell.vectors,
                f"{cell.vectors / cell.dim:.1f}",
                *(f"{100 * (fit.epsilon(cell.vectors, cell.dim) / cell.epsilon - 1):+.1f} %" for fit in found.values()),
            ]
            for cell in sorted(cells, key=lambda cell: (cell.dim, cell.vectors))
        ],
    )


def _models(found: Mapping[PackingForm, PackingFit]) -> str:
    forms: tuple[PackingForm, ...] = ("ratio", "fitted", "welch")
    rows = []
    for model in PUBLISHED_CAPACITIES:
        if model.capacity is None:
            continue
        explicit = lines(model.dim, model.epsilon).count if model.epsilon >= 1 / 64 else model.dim
        rows.append(
            [model.model, model.dim, f"{model.epsilon:.5f}", _log10(model.capacity)]
            + [f"{log10_vectors(form, found[form].constants, model.dim, model.epsilon):.2f}" for form in forms]
            + [_log10(explicit)]
        )
    heading = ["model", "d", "ε", "published", *(f"`{form}` refitted" for form in forms), "explicit lines"]
    return _markdown(heading, rows)


def _log10(count: float) -> str:
    return f"{log(count) / log(10):.2f}"


def _ratio_constant(k: int, d: int, epsilon: float) -> float:
    return d * epsilon**2 / log(k / d)


def _markdown(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines_of = [heading, ["---"] * len(heading), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines_of)
