"""A plain chart as SVG text: points and lines over two axes, each linear or logarithmic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 570, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 200, 30, 48  # px around the plotting area; the legend stands on the right
COLOURS = ("#0b6e99", "#c2571a", "#3d8b37", "#8a4fb5", "#b8860b", "#444444", "#d1477a")


@dataclass(frozen=True)
class Curve:
    """Points (x, y) with a name for the legend."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0  # of COLOURS
    marks: bool = True  # a circle at each point
    line: bool = True  # from each point to the next
    dashed: bool = False
    hollow: bool = False


@dataclass(frozen=True)
class Axis:
    """What an axis shows."""

    title: str
    log: bool = False
    ticks: tuple[float, ...] = ()  # chosen if not given


def chart(title: str, x: Axis, y: Axis, curves: Sequence[Curve]) -> str:
    """The document."""
    points = [point for curve in curves for point in curve.points]
    to_x, x_ticks = _scale(x, [p[0] for p in points], LEFT, WIDTH - RIGHT)
    to_y, y_ticks = _scale(y, [p[1] for p in points], HEIGHT - BOTTOM, TOP)
    middle_y = (TOP + HEIGHT - BOTTOM) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.title)}</text>',
        f'<text transform="translate(14 {middle_y}) rotate(-90)" text-anchor="middle">{escape(y.title)}</text>',
    ]
    for value in x_ticks:
        at = to_x(value)
        parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    for value in y_ticks:
        at = to_y(value)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    for curve in curves:
        parts += _drawn(curve, to_x, to_y)
    for row, curve in enumerate(curve for curve in curves if curve.name):
        at = TOP + 8 + 18 * row
        key = [(WIDTH - RIGHT + 12, at), (WIDTH - RIGHT + 32, at)]
        parts += _drawn(curve, float, float, key)
        parts.append(f'<text x="{WIDTH - RIGHT + 38}" y="{at + 4}">{escape(curve.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _drawn(
    curve: Curve,
    to_x: Callable[[float], float],
    to_y: Callable[[float], float],
    points: Sequence[tuple[float, float]] | None = None,
) -> list[str]:
    colour = COLOURS[curve.colour % len(COLOURS)]
    at = [(to_x(x), to_y(y)) for x, y in points or curve.points]
    parts = []
    if curve.line:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
    if curve.marks:
        fill = "white" if curve.hollow else colour
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{fill}" stroke="{colour}"/>' for x, y in at]
    return parts


def _scale(
    axis: Axis, values: Sequence[float], start: float, end: float
) -> tuple[Callable[[float], float], tuple[float, ...]]:
    """From values to pixels, and the values with a tick."""
    shown = [log10(value) if axis.log else value for value in (*values, *axis.ticks)]
    low, high = min(shown), max(shown)
    margin = 0.05 * (high - low) or 0.5
    low, high = low - margin, high + margin

    def to_pixel(value: float) -> float:
        return start + ((log10(value) if axis.log else value) - low) / (high - low) * (end - start)

    if axis.ticks:
        return to_pixel, axis.ticks
    if axis.log:
        decades = range(floor(low), ceil(high) + 1)
        candidates = [m * 10.0**d for d in decades for m in ((1, 2, 5) if high - low < 2.5 else (1,))]
        return to_pixel, tuple(value for value in candidates if low <= log10(value) <= high)
    step = 10 ** floor(log10((high - low) / 2))
    if (high - low) / step > 8:
        step *= 2 if (high - low) / step <= 16 else 5
    return to_pixel, tuple(round(step * i, 10) for i in range(ceil(low / step), floor(high / step) + 1))
