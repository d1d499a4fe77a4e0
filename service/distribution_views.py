"""An analysed matrix as tables and pictures."""

import math
from collections.abc import Sequence

from gramian.storage.tables import MatrixRow
from service.capacity_views import capacity_svg
from service.charts import BLUE, GREY, Axis, Line, Mark, line_chart
from service.representations import csv_text
from service.schemas.capacity import CapacityAnswer
from service.schemas.matrices import Histogram


def histogram_csv(found: Histogram) -> str:
    """A row a bin: its edges, its count, its share of the pairs."""
    bins = zip(found.edges[:-1], found.edges[1:], found.counts, strict=True)
    return csv_text(
        ["low", "high", "count", "share"], [[low, high, count, count / found.pairs] for low, high, count in bins]
    )


def histogram_svg(found: Histogram, *, dim: int) -> str:
    """Density of the cosines of pairs, with μ and ε, over that of random directions in as many dimensions."""
    edges, width = found.edges, found.edges[1] - found.edges[0]
    density = [count / found.pairs / width for count in found.counts]
    filled = [i for i, count in enumerate(found.counts) if count]
    low, high = edges[filled[0]], edges[filled[-1] + 1]
    reach = min(1.0, 2.5 * found.random)
    x = Axis("cosine of two rows", max(-1.0, min(low, -reach)), min(1.0, max(high, reach, found.epsilon)))
    random = _random_density(dim, x)
    looked = "all pairs" if found.mode == "exact" else f"{found.pairs:,} random pairs"
    lines = [
        Line(f"{found.tensor}, {looked}", _steps(edges, density), BLUE),
        Line(f"random directions in {dim:,} dimensions", random, GREY, dashed=True),
    ]
    y = Axis("density", 0.0, 1.25 * max([*density, *(value for _, value in random)]))
    marks = [Mark(f"μ = {found.mean:.4g}", found.mean, "x"), Mark(f"ε = {found.epsilon:.4g}", found.epsilon, "x")]
    said = (
        f"ε = μ + 2σ = {found.epsilon:.6g} over all pairs, exact; random rows have {found.random:.4g}. "
        f"The curve shows {looked}."
    )
    return line_chart("Cosines between rows", said, x=x, y=y, lines=lines, marks=marks)


def matrix_capacity_svg(row: MatrixRow) -> str:
    """The matrix's capacity between what certainly exists and what cannot."""
    stored = row.details["capacity"] | {"vocabulary_directions": row.vocabulary_directions}
    return capacity_svg(CapacityAnswer(dim=row.dim, epsilon=row.epsilon, **stored))


def _steps(edges: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float | None]]:
    """The outline of bars, from the first that is not empty to the last."""
    filled = [i for i, height in enumerate(heights) if height]
    points: list[tuple[float, float | None]] = [(edges[filled[0]], 0.0)]
    for i in range(filled[0], filled[-1] + 1):
        points += [(edges[i], heights[i]), (edges[i + 1], heights[i])]
    return [*points, (edges[filled[-1] + 1], 0.0)]


def _random_density(dim: int, x: Axis, points: int = 400) -> list[tuple[float, float]]:
    """Of the cosine of two random directions, ∝ (1 − c²)^{(d−3)/2}; nothing to draw below three dimensions."""
    if dim < 3:
        return []
    log_scale = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) - 0.5 * math.log(math.pi)
    at = [x.low + (x.high - x.low) * i / (points - 1) for i in range(points)]
    inside = [c for c in at if abs(c) < 1]
    return [(c, math.exp(log_scale + (dim - 3) / 2 * math.log1p(-c * c))) for c in inside]
