"""Charts as SVG text: lines over two axes, and values on one scale. No plotting library (docs/adr/0013).

A chart is drawn in a box of 720 × 440 units and scales with its page. Text stays text, colours are told apart by
colour-blind readers as well (Okabe and Ito's), and title and description are there for screen readers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 56, 64  # margins of the plotting area

BLUE, GREEN, RED, GREY = "#0072b2", "#009e73", "#d55e00", "#666666"
PALETTE = (BLUE, RED, GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # for as many groups as there may be


@dataclass(frozen=True)
class Axis:
    """A range with its name; logarithmic in base 2, which dimensions like, if so told."""

    label: str
    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high one, clipped to them."""
        low, high, at = (
            (math.log2(self.low), math.log2(self.high), math.log2(value))
            if self.logarithmic
            else (self.low, self.high, value)
        )
        return min(max((at - low) / (high - low), 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round values inside the range: powers of 2, or multiples of 1, 2 or 5 times a power of 10."""
        if self.logarithmic and self.high / self.low >= 4:
            first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
            stride = max(1, -(-(last - first) // 8))
            return [2.0**power for power in range(first, last + 1, stride)]
        rough = (self.high - self.low) / 6
        magnitude = 10.0 ** math.floor(math.log10(rough))
        step = next(step for step in (1, 2, 5, 10) if step * magnitude >= rough) * magnitude
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


@dataclass(frozen=True)
class Line:
    """A curve; points whose y is None or infinite interrupt it. Without a label it is not in the legend."""

    label: str
    points: Sequence[tuple[float, float | None]]
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Dots:
    """Points of one group; without a label they are not in the legend."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str
    errors: Sequence[float | None] = ()  # one a point, as whiskers to both sides


@dataclass(frozen=True)
class Mark:
    """A straight line across the chart at one value of x or y, with its reason."""

    label: str
    at: float
    axis: str  # "x" or "y"


@dataclass(frozen=True)
class Value:
    """A value on a scale, None where there is none, perhaps with an interval."""

    label: str
    value: float | None
    colour: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Band:
    """A shaded part of a scale."""

    label: str
    low: float
    high: float
    colour: str


def line_chart(
    title: str,
    description: str,
    *,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    marks: Sequence[Mark] = (),
    dots: Sequence[Dots] = (),
) -> str:
    """Curves and points over two axes, with a legend."""
    body = [_frame(), *_x_axis(x), *_y_axis(y)]
    for mark in marks:
        body += _mark(mark, x, y)
    for line in lines:
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        body.append(f'<path d="{_path(line, x, y)}" fill="none" stroke="{line.colour}" stroke-width="2"{dash}/>')
    named = [line for line in lines if line.label]
    for row, line in enumerate(named):
        top = TOP + 18 + 18 * row
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        body.append(
            f'<path d="M{LEFT + 12} {top}h24" stroke="{line.colour}" stroke-width="2"{dash}/>'
            + _text(LEFT + 42, top + 4, line.label)
        )
    for group in dots:
        body += [
            f'<circle cx="{_px(x, at):.1f}" cy="{_py(y, value):.1f}" r="3.5" fill="{group.colour}"/>'
            for at, value in group.points
        ]
        whiskers = [(at, value, error) for (at, value), error in zip(group.points, group.errors, strict=False) if error]
        body += [
            f'<path d="M{_px(x, at):.1f} {_py(y, value - error):.1f}V{_py(y, value + error):.1f}" '
            f'stroke="{group.colour}" stroke-width="1.5"/>'
            for at, value, error in whiskers
        ]
    for row, group in enumerate((group for group in dots if group.label), start=len(named)):
        top = TOP + 18 + 18 * row
        body.append(f'<circle cx="{LEFT + 24}" cy="{top}" r="3.5" fill="{group.colour}"/>')
        body.append(_text(LEFT + 42, top + 4, group.label))
    return _document(title, description, body)


def scale_chart(title: str, description: str, *, x: Axis, values: Sequence[Value], bands: Sequence[Band] = ()) -> str:
    """Values below one another on one scale, over shaded bands."""
    body = []
    for band in bands:
        left, right = _px(x, band.low), _px(x, band.high)
        body.append(
            f'<rect x="{left:.1f}" y="{TOP}" width="{max(right - left, 0):.1f}" height="{HEIGHT - TOP - BOTTOM}" '
            f'fill="{band.colour}" fill-opacity="0.12"/>'
        )
        if right - left > 7 * len(band.label):
            body.append(_text((left + right) / 2, HEIGHT - BOTTOM - 8, band.label, anchor="middle", colour=band.colour))
    body += [_frame(), *_x_axis(x)]
    step = (HEIGHT - TOP - BOTTOM - 24) / max(len(values), 1)
    for row, value in enumerate(values):
        body += _value(value, x, TOP + step * (row + 0.5))
    return _document(title, description, body)


def _value(value: Value, x: Axis, top: float) -> list[str]:
    if value.value is None:
        return [_text(LEFT + 12, top + 4, f"{value.label}: none", colour=value.colour)]
    at = _px(x, value.value)
    found = []
    if value.interval:
        low, high = (_px(x, end) for end in value.interval)
        found.append(
            f'<path d="M{low:.1f} {top - 5:.1f}v10m0 -5H{high:.1f}m0 -5v10" stroke="{value.colour}" fill="none"/>'
        )
    found.append(f'<circle cx="{at:.1f}" cy="{top:.1f}" r="5" fill="{value.colour}"/>')
    said = f"{value.label}: 10^{value.value:.4g}"
    after = at + 10 + 6.6 * len(said) < WIDTH - RIGHT
    end = max(at, _px(x, value.interval[1])) if value.interval and after else at
    start = min(at, _px(x, value.interval[0])) if value.interval and not after else at
    anchor, left = ("start", end + 10) if after else ("end", start - 10)
    found.append(_text(left, top + 4, said, anchor=anchor))
    return found


def _mark(mark: Mark, x: Axis, y: Axis) -> list[str]:
    if mark.axis == "x":
        left = _px(x, mark.at)
        line = f'<path d="M{left:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{GREY}" stroke-dasharray="2 3"/>'
        return [line, _text(left + 6, HEIGHT - BOTTOM - 8, mark.label, colour=GREY)]
    top = _py(y, mark.at)
    line = f'<path d="M{LEFT} {top:.1f}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-dasharray="2 3"/>'
    return [line, _text(WIDTH - RIGHT - 6, top - 6, mark.label, anchor="end", colour=GREY)]


def _path(line: Line, x: Axis, y: Axis) -> str:
    steps, pen = [], "M"
    for at, value in line.points:
        if value is None or not math.isfinite(value):
            pen = "M"
            continue
        steps.append(f"{pen}{_px(x, at):.1f} {_py(y, value):.1f}")
        pen = "L"
    return "".join(steps)


def _x_axis(axis: Axis) -> list[str]:
    found = [_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, axis.label, anchor="middle")]
    for tick in axis.ticks():
        left, foot = _px(axis, tick), HEIGHT - BOTTOM
        found.append(f'<path d="M{left:.1f} {foot}v5" stroke="#000"/>')
        found.append(_text(left, foot + 20, _number(tick), anchor="middle"))
    return found


def _y_axis(axis: Axis) -> list[str]:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    found = [_text(18, middle, axis.label, anchor="middle", more=f' transform="rotate(-90 18 {middle})"')]
    for tick in axis.ticks():
        top = _py(axis, tick)
        found.append(f'<path d="M{LEFT} {top:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        found.append(_text(LEFT - 8, top + 4, _number(tick), anchor="end"))
    return found


def _px(axis: Axis, value: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * axis.share(value)


def _py(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * axis.share(value)


def _frame() -> str:
    return (
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}" '
        'fill="none" stroke="#000"/>'
    )


def _text(left: float, top: float, said: str, *, anchor: str = "start", colour: str = "#000", more: str = "") -> str:
    return f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{escape(said)}</text>'


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.3e}".replace("e+", "e") if value > 1e6 else f"{value:.0f}"


def _document(title: str, description: str, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title description" font-family="sans-serif" font-size="12">'
        f'<title id="title">{escape(title)}</title><desc id="description">{escape(description)}</desc>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        + _text(LEFT, 30, title, more=' font-size="15" font-weight="bold"')
        + "".join(body)
        + "</svg>\n"
    )
