"""A series of toy models that differ in width only: how the loss falls with m, beside what theory says. No torch.

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gramian.errors import GeometryError
from gramian.geometry.frequencies import Vector, steepness
from gramian.geometry.power_law import Estimate, fit_power_law
from gramian.geometry.toy_theory import (
    ExponentRange,
    ToyRegimeName,
    ignored_loss,
    strong_exponent,
    toy_regime,
    weak_exponent,
)


@dataclass(frozen=True)
class SeriesPoint:
    """A trained model: width m, loss L and the number of represented features. Replicates may repeat m."""

    dims: int
    loss: float
    represented: int


@dataclass(frozen=True)
class ToySeries:
    """How the loss of a series falls with width.

    Attributes
    ----------
    exponent : Estimate
        α_m of L ∝ m^{−α_m}, from ln L = a − α_m ln m.
    regime : ToyRegimeName or None
        Of all points; None where they differ.
    ignored_losses : tuple of float
        What weak superposition predicts for each point, ⟨v²⟩ Σ_{i>φn} p_i with the point's own φ.
    ignored_exponent : float or None
        The exponent of those predictions over the same widths; None where one is 0.
    weak_exponent : float or None
        α − 1, which that tends to with n; None for α ≤ 1.
    strong_exponent : ExponentRange
        What strong superposition predicts.
    """

    exponent: Estimate
    regime: ToyRegimeName | None
    ignored_losses: tuple[float, ...]
    ignored_exponent: float | None
    weak_exponent: float | None
    strong_exponent: ExponentRange


def summarise_series(points: Sequence[SeriesPoint], p: Vector) -> ToySeries:
    """Fit α_m to models of one set of features, p (n,), and put theory beside it.

    α is the steepness of p over its first ranks up to the largest width: the exponent itself for a power law.

    Raises
    ------
    GeometryError
        For fewer than three points or two widths, a width that is not between 1 and n, and a loss that is not positive.

    Examples
    --------
    >>> from gramian.geometry.frequencies import PowerLaw, activation_probabilities
    >>> p = activation_probabilities(PowerLaw(1.0), 1000)
    >>> series = summarise_series([SeriesPoint(m, 3 / m, 1000) for m in (10, 30, 100)], p)
    >>> round(series.exponent.value, 6), series.regime, series.strong_exponent
    (1.0, 'strong', ExponentRange(low=1.0, high=1.0))
    """
    n = len(p)
    if any(not 1 <= point.dims <= n for point in points):
        raise GeometryError(f"widths lie between 1 and the {n} features")
    dims = [float(point.dims) for point in points]
    fall = fit_power_law(dims, [point.loss for point in points]).slope
    ignored = [ignored_loss(p, point.represented) for point in points]
    regimes = {toy_regime(features=n, dims=point.dims, represented=point.represented) for point in points}
    alpha = steepness(p, int(max(dims)))
    return ToySeries(
        exponent=Estimate(-fall.value, fall.standard_error, -fall.high, -fall.low),
        regime=regimes.pop() if len(regimes) == 1 else None,
        ignored_losses=tuple(ignored),
        ignored_exponent=-fit_power_law(dims, ignored).slope.value if min(ignored) > 0 else None,
        weak_exponent=weak_exponent(alpha),
        strong_exponent=strong_exponent(alpha),
    )
