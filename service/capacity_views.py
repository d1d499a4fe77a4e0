"""The capacity calculators' answers as tables and pictures."""

from collections.abc import Iterator, Sequence
from typing import get_args, get_origin

from pydantic import BaseModel

from gramian.geometry.capacity import LOW_EPSILON
from service.charts import BLUE, GREEN, GREY, RED, Axis, Band, Line, Mark, Value, line_chart, scale_chart
from service.representations import Cell, csv_text
from service.schemas.capacity import CapacityAnswer, CurvePoint, DesignAnswer, SensitivityAnswer

COUNT = "log10 of the number of directions"


def flat_csv(answer: CapacityAnswer | DesignAnswer) -> str:
    """One answer as one row: nested fields by their names with dots, codes of warnings in one cell.

    The columns follow from the answer's type, so that rows of several answers can be put below one another.
    """
    cells = list(_flat(type(answer), answer))
    return csv_text([name for name, _ in cells], [[cell for _, cell in cells]])


def curve_csv(answer: SensitivityAnswer) -> str:
    """The curve, a row a point."""
    names = list(CurvePoint.model_fields)
    return csv_text(names, [[getattr(point, name) for name in names] for point in answer.points])


def capacity_svg(answer: CapacityAnswer) -> str:
    """The estimate between what certainly exists and what cannot."""
    bounds = answer.bounds
    values = [
        Value("random draws", bounds.random_log10, GREY),
        Value("greedy choice", bounds.greedy_log10, GREEN),
        Value("explicit code and axes", bounds.constructed_log10, GREEN),
        Value("reachable by descent (published fit)", answer.log10_directions, BLUE, answer.interval_log10),
        Value("at most, for lines", bounds.upper_lines_log10, RED),
        Value("at most, for the sphere", bounds.upper_log10, RED),
    ]
    known = [value.value for value in values if value.value is not None]
    known += answer.interval_log10 or ()
    x = Axis(COUNT, 0.0, 1.08 * max(*known, 1.0))
    bands = []
    if bounds.exists_log10 is not None and bounds.upper_lines_log10 is not None:
        bands = [
            Band("certainly exist", 0.0, bounds.exists_log10, GREEN),
            Band("do not exist", bounds.upper_lines_log10, x.high, RED),
        ]
    said = answer.position.words if answer.position else answer.reason or ""
    return scale_chart(
        f"Directions within ε = {answer.epsilon:g} of orthogonality in {answer.dim:,} dimensions",
        said,
        x=x,
        values=values,
        bands=bands,
    )


def curve_svg(answer: SensitivityAnswer, *, target_log10: float | None = None, dim: int | None = None) -> str:
    """The curve between the brackets; a design's target and dimension as marks."""
    over_epsilon = answer.over == "epsilon"
    points = answer.points
    at = [point.epsilon if over_epsilon else float(point.dim) for point in points]
    x = Axis("ε" if over_epsilon else "dimensions d", at[0], at[-1], logarithmic=not over_epsilon)
    lines = [
        Line("at most, for lines", _pairs(at, [p.upper_lines_log10 for p in points]), RED),
        Line(_named(answer.form), _pairs(at, [p.log10_directions for p in points]), BLUE),
        Line("certainly exist", _pairs(at, [p.exists_log10 for p in points]), GREEN),
    ]
    heights = [value for line in lines for _, value in line.points if value is not None]
    marks = [Mark("asked for", answer.epsilon if over_epsilon else float(answer.dim), "x")]
    if over_epsilon and at[0] < LOW_EPSILON < at[-1] and answer.form == "fitted":
        marks.append(Mark("indeterminate from here", LOW_EPSILON, "x"))
    if target_log10 is not None:
        heights.append(target_log10)
        marks = [Mark("wanted", target_log10, "y"), Mark(f"d = {dim}", float(dim or answer.dim), "x")]
    y = Axis(COUNT, 0.0, 1.05 * max(*heights, 1.0))
    fixed = f"{answer.dim:,} dimensions" if over_epsilon else f"ε = {answer.epsilon:g}"
    title = f"Directions by {'ε' if over_epsilon else 'dimension'} at {fixed}"
    slope = answer.elasticity.epsilon if over_epsilon else answer.elasticity.dim
    said = f"one per cent more {'ε' if over_epsilon else 'dimensions'} gives {slope:.3g} per cent more directions"
    return line_chart(title, said, x=x, y=y, lines=lines, marks=marks)


def _named(form: str) -> str:
    return "reachable by descent (published fit)" if form == "fitted" else f"form {form}"


def _pairs(at: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float | None]]:
    return list(zip(at, values, strict=True))


def _flat(model: type[BaseModel], value: BaseModel | None, prefix: str = "") -> Iterator[tuple[str, Cell]]:
    for name, field in model.model_fields.items():
        item = getattr(value, name, None)
        kinds = [field.annotation, *get_args(field.annotation)]
        nested = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if any(get_origin(kind) is tuple for kind in kinds):
            low, high = item or (None, None)
            yield from ((f"{prefix}{name}.low", low), (f"{prefix}{name}.high", high))
        elif isinstance(item, list):
            yield f"{prefix}{name}", "; ".join(str(getattr(each, "code", each)) for each in item)
        elif isinstance(item, dict):
            yield from ((f"{prefix}{name}.{key}", each) for key, each in item.items())
        elif nested:
            yield from _flat(nested, item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item
