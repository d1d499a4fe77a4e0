"""`make superposition`: train the reduced presets, and write the tables and plots of docs/superposition.md.

Cells that docs/superposition/cells.csv holds are not trained again; delete it to begin anew. Stopped, it goes on from
the finished cells.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean
from typing import Annotated

import torch
import typer

from benchmarks.chart import Axis, Curve, chart
from benchmarks.toy_cells import Row, read, run
from gramian.geometry.frequencies import PowerLaw, Vector, activation_probabilities
from gramian.geometry.presets import PRESETS
from gramian.geometry.toy_series import SeriesPoint, ToySeries, summarise_series
from gramian.geometry.toy_theory import strong_exponent, weak_exponent

DOCUMENT = Path("docs/superposition.md")
FOLDER = Path("docs/superposition")
CELLS = FOLDER / "cells.csv"
STARTS = {1.0: "published", 0.0: "zero bias"}
REDUCED_FEATURES, REGIME_FEATURES = 400, 1000
WIDTH_AXIS = Axis("hidden dimensions m", log=True, ticks=(10, 20, 40))

Key = Callable[[Row], tuple[float, ...]]


def main(
    threads: Annotated[int, typer.Option(min=1, help="For torch; one is as fast at this size.")] = 1,
    train: Annotated[bool, typer.Option(help="Train what is missing; else use what is there.")] = True,
) -> None:
    """Train, then write."""
    torch.set_num_threads(threads)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if train:
        studies = chain.from_iterable(preset.reduced for preset in PRESETS.values())
        cells = sorted(dict.fromkeys(chain.from_iterable(s.cells() for s in studies)), key=lambda cell: cell.seed)
        for done, row in enumerate(run(cells, CELLS), start=1):
            print(f"{done}/{len(cells)}  {row.question}  loss {row.loss:.4f}", file=sys.stderr)
    rows = read(CELLS)
    for name, svg in plots(rows).items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
    regimes = [row for row in rows if row.features == REGIME_FEATURES]
    write_tables(
        {
            "weak": weak_table(rows),
            "strong": strong_table(rows),
            "density": density_table(rows),
            "weak regime": weak_regime_table(regimes),
            "strong regime": strong_regime_table(regimes),
        }
    )


def write_tables(tables: dict[str, str]) -> None:
    """Put each table between its two marks in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{table}\n\n{end}{rest.split(end)[1]}"
    DOCUMENT.write_text(text, encoding="utf-8")


# -- groups of cells ------------------------------------------------------------------------------------------


def grouped(rows: Iterable[Row], key: Key) -> dict[tuple[float, ...], list[Row]]:
    return {of: list(members) for of, members in groupby(sorted(rows, key=key), key=key)}


def plain(rows: Iterable[Row], weight_decay: float) -> list[Row]:
    """Cells of one γ at n = 400 and density 1, all exponents, widths, seeds and starts."""
    reduced = [row for row in rows if row.features == REDUCED_FEATURES and row.density == 1]
    return [row for row in reduced if row.weight_decay == weight_decay]


def whole(rows: Sequence[Row]) -> bool:
    """Whether a series has every width: one that was cut short is not shown."""
    return {row.dims for row in rows} == {10, 20, 40}


def probabilities(row: Row) -> Vector:
    return activation_probabilities(PowerLaw(row.exponent), row.features, density=row.density)


def series(rows: Sequence[Row]) -> ToySeries:
    return summarise_series([SeriesPoint(r.dims, r.loss, r.represented) for r in rows], probabilities(rows[0]))


def by_width(rows: Iterable[Row], value: Callable[[Row], float]) -> list[tuple[float, float]]:
    """The mean of a value over replicates, at each width."""
    found = defaultdict(list)
    for row in rows:
        found[row.dims].append(value(row))
    return [(float(dims), fmean(values)) for dims, values in sorted(found.items())]


def start_and_exponent(row: Row) -> tuple[float, ...]:
    return (-row.bias_std, row.exponent)  # the published start first


# -- tables ---------------------------------------------------------------------------------------------------


def weak_table(rows: Sequence[Row]) -> str:
    head = (
        "| start | α | seeds | φn at m = 10, 20, 40 | loss | loss / sum | loss / short sum | α_m | of the sum | α − 1 |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|"]
    steep = [row for row in plain(rows, 1.0) if row.exponent > 1]
    for (minus_std, alpha), members in grouped(steep, start_and_exponent).items():
        if not whole(members):
            continue
        found = series(members)
        of_sum = f"{found.ignored_exponent:.2f}" if found.ignored_exponent is not None else "–"
        cells = [
            STARTS[-minus_std],
            f"{alpha:g}",
            str(len({row.seed for row in members})),
            _list(by_width(members, lambda r: r.represented), "{:.0f}"),
            _list(by_width(members, lambda r: r.loss), "{:.3f}"),
            _list(by_width(members, lambda r: r.loss / r.ignored_loss), "{:.2f}"),
            _list(by_width(members, lambda r: r.loss / r.short_rows_loss), "{:.2f}"),
            f"{found.exponent.value:.2f} ± {found.exponent.standard_error:.2f}",
            of_sum,
            f"{weak_exponent(alpha) or 0:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def strong_table(rows: Sequence[Row]) -> str:
    head = "| start | α | seeds | least φ_½ | dead at m = 10, 20, 40 | m·m₂ | m·(Welch floor) | loss | α_m | theory |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|"]
    for (minus_std, alpha), members in grouped(plain(rows, -1.0), start_and_exponent).items():
        if not whole(members):
            continue
        found, theory = series(members), strong_exponent(alpha)
        cells = [
            STARTS[-minus_std],
            f"{alpha:g}",
            str(len({row.seed for row in members})),
            f"{min(row.represented / row.features for row in members):.3f}",
            _list(by_width(members, lambda r: r.dead), "{:.0f}"),
            _list(by_width(members, lambda r: r.overlap_times_dim), "{:.2f}"),
            _list(by_width(members, lambda r: r.floor_times_dim), "{:.2f}"),
            _list(by_width(members, lambda r: r.loss), "{:.3f}"),
            f"{found.exponent.value:.2f} ± {found.exponent.standard_error:.2f}",
            "1" if theory.high == 1 else f"1 to {theory.high:g}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def density_table(rows: Sequence[Row]) -> str:
    lines = ["| γ | density | loss at m = 10, 20, 40 | α_m |", "|---|---|---|---|"]
    for (gamma, density), members in grouped(density_cells(rows), lambda r: (r.weight_decay, r.density)).items():
        if whole(members):
            found = series(members).exponent
            losses = _list(by_width(members, lambda r: r.loss), "{:.3f}")
            lines.append(f"| {gamma:+g} | {density:g} | {losses} | {found.value:.2f} ± {found.standard_error:.2f} |")
    return "\n".join(lines)


def density_cells(rows: Iterable[Row]) -> list[Row]:
    reduced = [r for r in rows if r.features == REDUCED_FEATURES and r.seed == 0]
    return [r for r in reduced if r.exponent == 1 and r.bias_std == 1 and abs(r.weight_decay) == 1]


# -- both regimes at n = 1000 ---------------------------------------------------------------------------------

WITHIN = {"loss": 0.15, "weak slope": 0.15, "flat slope": 0.2}
OVERLAPS = (0.9, 1.3)
FLAT = 1.0  # exponents up to here


def weak_regime_table(rows: Sequence[Row]) -> str:
    head = "| α | seeds | φn | loss | loss / sum | each seed | within 15 % | α_m | of the sum | within 0.15 | α − 1 |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|---|"]
    for (alpha,), members in grouped([r for r in rows if r.weight_decay == 1], lambda r: (r.exponent,)).items():
        found = series(members)
        slopes = found.exponent.value, found.ignored_exponent or 0.0
        ratios = by_width(members, lambda r: r.loss / r.ignored_loss)
        single = [r.loss / r.ignored_loss for r in members]
        cells = [
            f"{alpha:g}",
            _seeds(members),
            _list(by_width(members, lambda r: r.represented), "{:.0f}"),
            _list(by_width(members, lambda r: r.loss), "{:.3f}"),
            _list(ratios, "{:.2f}"),
            f"{min(single):.2f} to {max(single):.2f}",
            _share([abs(ratio - 1) <= WITHIN["loss"] for ratio in single]),
            f"{slopes[0]:.2f} ± {found.exponent.standard_error:.2f}",
            f"{slopes[1]:.2f}",
            _yes(abs(slopes[0] - slopes[1]) <= WITHIN["weak slope"]),
            f"{alpha - 1:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def strong_regime_table(rows: Sequence[Row]) -> str:
    head = "| α | seeds | least φ_½ | dead | m·m₂ | each seed | in 0.9 to 1.3 | loss | α_m | wanted | met |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|---|"]
    for (alpha,), members in grouped([r for r in rows if r.weight_decay == -1], lambda r: (r.exponent,)).items():
        found = series(members).exponent
        low, high = strong_exponent(alpha)
        if alpha <= FLAT or low == high:  # 1 is asked for, not a range
            low, high = 1 - WITHIN["flat slope"], 1 + WITHIN["flat slope"]
        overlaps = [r.overlap_times_dim for r in members]
        cells = [
            f"{alpha:g}",
            _seeds(members),
            f"{min(r.represented / r.features for r in members):.3f}",
            _list(by_width(members, lambda r: r.dead), "{:.0f}"),
            _list(by_width(members, lambda r: r.overlap_times_dim), "{:.2f}"),
            f"{min(overlaps):.2f} to {max(overlaps):.2f}",
            _share([OVERLAPS[0] <= overlap <= OVERLAPS[1] for overlap in overlaps]),
            _list(by_width(members, lambda r: r.loss), "{:.3f}"),
            f"{found.value:.2f} ± {found.standard_error:.2f}",
            f"{low:g} to {high:g}",
            _yes(low <= found.value <= high),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _seeds(members: Sequence[Row]) -> str:
    return str(len({row.seed for row in members}))


def _share(found: Sequence[bool]) -> str:
    return f"{sum(found)} of {len(found)}"


def _yes(found: bool) -> str:
    return "yes" if found else "no"


def _list(values: Iterable[tuple[float, float]], form: str) -> str:
    return ", ".join(form.format(value) for _, value in values)


# -- plots ----------------------------------------------------------------------------------------------------


def plots(rows: Sequence[Row]) -> dict[str, str]:
    """SVG by name."""
    return {
        "fig3": represented_against_decay(rows),
        "fig4": exponents(rows),
        "fig5": weak_losses(rows),
        "fig6-overlap": overlaps(rows),
        "fig6-loss": strong_losses(rows),
        "fig7": densities(rows),
    }


def represented_against_decay(rows: Sequence[Row]) -> str:
    reduced = [r for r in rows if r.features == REDUCED_FEATURES and r.density == 1]
    cells = [r for r in reduced if r.dims == 20 and r.bias_std == 1 and r.exponent in {0, 1, 2}]
    curves = [
        Curve(f"α = {alpha:g}", _means(members, lambda r: r.weight_decay, lambda r: r.represented / r.features), i)
        for i, ((alpha,), members) in enumerate(grouped(cells, lambda r: (r.exponent,)).items())
    ]
    limit = Curve("m/n", [(-1.0, 0.05), (1.0, 0.05)], 5, marks=False, dashed=True)
    return chart("Represented fraction, m = 20", Axis("weight decay γ"), Axis("φ_½"), [*curves, limit])


def exponents(rows: Sequence[Row]) -> str:
    curves = []
    for i, gamma in enumerate((-1.0, 1.0)):
        for std, start in STARTS.items():
            cells = [row for row in plain(rows, gamma) if row.bias_std == std]
            found = [
                (alpha, series(members).exponent.value)
                for (alpha,), members in grouped(cells, lambda r: (r.exponent,)).items()
                if whole(members)
            ]
            if found:
                curves.append(Curve(f"γ = {gamma:+g}, {start}", found, i, hollow=std == 0))
    alphas = [i / 8 for i in range(17)]
    high = Curve("max(1, 2(α−1))", [(a, strong_exponent(a).high) for a in alphas], 5, marks=False, dashed=True)
    weak = Curve("α − 1", [(a, a - 1) for a in alphas if a >= 1], 4, marks=False, dashed=True)
    return chart("Exponent of the loss", Axis("frequency exponent α"), Axis("α_m"), [*curves, high, weak])


def weak_losses(rows: Sequence[Row]) -> str:
    steep = [row for row in plain(rows, 1.0) if row.exponent > 1]
    curves = [
        Curve(
            f"{start}, {words}",
            [(value(r), r.loss) for r in steep if r.bias_std == std],
            colour,
            line=False,
            hollow=hollow,
        )
        for colour, (std, start) in enumerate(STARTS.items())
        for words, value, hollow in (
            ("i > φn", _ignored, True),
            ("short rows", _short, False),
        )
    ]
    curves = [curve for curve in curves if curve.points]
    ends = [f([x for curve in curves for x, _ in curve.points]) for f in (min, max)]
    same = Curve("equal", [(x, x) for x in ends], 5, marks=False, dashed=True)
    title = "Weak superposition: loss against what is left out"
    return chart(title, Axis("4/3 Σ p over features left out", log=True), Axis("loss", log=True), [*curves, same])


def overlaps(rows: Sequence[Row]) -> str:
    curves = _by_exponent(plain(rows, -1.0), lambda r: r.overlap_times_dim / r.dims)
    inverse = Curve("1/m", [(m, 1 / m) for m in (10, 20, 40)], 5, marks=False, dashed=True)
    title = "Mean squared overlap (hollow: zero bias start)"
    return chart(title, WIDTH_AXIS, Axis("m₂", log=True), [*curves, inverse])


def strong_losses(rows: Sequence[Row]) -> str:
    curves = _by_exponent(plain(rows, -1.0), lambda r: r.loss)
    return chart("Strong superposition: loss (hollow: zero bias start)", WIDTH_AXIS, Axis("loss", log=True), curves)


def densities(rows: Sequence[Row]) -> str:
    curves = [
        Curve(f"γ = {gamma:+g}, E = {density:g}", by_width(members, lambda r: r.loss), i, hollow=gamma > 0)
        for i, ((gamma, density), members) in enumerate(
            grouped(density_cells(rows), lambda r: (r.weight_decay, r.density)).items()
        )
    ]
    return chart("Activation density E, α = 1", WIDTH_AXIS, Axis("loss", log=True), curves)


def _by_exponent(cells: Sequence[Row], value: Callable[[Row], float]) -> list[Curve]:
    curves = []
    for std in STARTS:
        groups = grouped([r for r in cells if r.bias_std == std], lambda r: (r.exponent,))
        for i, ((alpha,), members) in enumerate(groups.items()):
            if whole(members):
                name = f"α = {alpha:g}" if std else ""
                curves.append(Curve(name, by_width(members, value), i if i < 5 else 6, hollow=std == 0))
    return curves


def _ignored(row: Row) -> float:
    return row.ignored_loss


def _short(row: Row) -> float:
    return row.short_rows_loss


def _means(rows: Iterable[Row], x: Callable[[Row], float], y: Callable[[Row], float]) -> list[tuple[float, float]]:
    return [(at, fmean(y(r) for r in members)) for (at,), members in grouped(rows, lambda r: (x(r),)).items()]


if __name__ == "__main__":
    typer.run(main)
