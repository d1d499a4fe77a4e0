"""Residuals of fits over widths as pictures."""

from collections.abc import Mapping, Sequence

from service.charts import PALETTE, Axis, Dots, Mark, line_chart
from service.schemas.scaling import Fitted, OverlapAnswer, ScalingFit

MAX_NAMED = 12  # series in the legend; more would cover the points


def scaling_residuals_svg(fit: ScalingFit) -> str:
    """Losses less the fit, a colour a series."""
    named = {
        offset.name: [(r.dim, r.residual) for r in fit.residuals if r.series == offset.name] for offset in fit.offsets
    }
    return _residuals("Losses less A/m^α + B", f"α = {_with_error(fit.alpha)}", "width m", "loss less the fit", named)


def overlap_residuals_svg(fit: OverlapAnswer) -> str:
    """ln m₂ less the line through all points, a colour a family."""
    named = {f.name: [(float(p.dim), p.residual) for p in fit.points if p.family == f.name] for f in fit.families}
    said = f"slope {_with_error(fit.slope)}, isotropic rows have −1"
    return _residuals("Mean squared overlap less the fit", said, "dimensions d", "ln m₂ less the line", named)


def _residuals(title: str, said: str, x: str, y: str, named: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    widths = [width for points in named.values() for width, _ in points]
    highest = max(abs(residual) for points in named.values() for _, residual in points)
    top = 1.4 * highest or 1.0  # room for the legend
    dots = [
        Dots(name if i < MAX_NAMED else "", points, PALETTE[i % len(PALETTE)])
        for i, (name, points) in enumerate(named.items())
    ]
    return line_chart(
        f"{title}: {said}",
        f"{len(widths)} points in {len(named)} groups; the largest residual is {highest:.3g}",
        x=Axis(x, 0.9 * min(widths), 1.1 * max(widths), logarithmic=True),
        y=Axis(y, -top, top),
        lines=[],
        dots=dots,
        marks=[Mark("", 0.0, "y")],
    )


def _with_error(found: Fitted) -> str:
    if found.value is None or found.standard_error is None:
        return "undetermined"
    return f"{found.value:.3g} ± {found.standard_error:.2g}"
