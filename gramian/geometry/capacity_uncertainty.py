"""How uncertain a capacity is: from the error of ε, and from the constants of the `fitted` form.

The published constants are the least-squares fit of ε* = √(C (a ln k − ln d)ᵇ / dᶜ) to the packings with k > d: with s
the residuals and J the Jacobian in (C, a, b, c), their covariance is s²(JᵀJ)⁻¹ if the residuals are independent. They
are not. Packings of one dimension err together, as the optimiser's shortfall depends on k/d, and leaving out one
dimension at a time moves the constants four times as much as that. The covariance used is therefore the one clustered
by dimension (13 clusters),

    (JᵀJ)⁻¹ (Σ_d J_dᵀ s_d s_dᵀ J_d) (JᵀJ)⁻¹ · G/(G − 1) · (N − 1)/(N − 4)

and the plain one stands beside it. Both are of the fit alone: that the form holds orders of magnitude beyond the fit,
and that better packings give other constants, no covariance tells. `math` only.

Source: the rows of `published_packings`; the matrices are computed from them in tests/geometry/test_uncertainty.py.
Clustered covariance: K.-Y. Liang, S. L. Zeger, Biometrika 73 (1986).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gramian.errors import GeometryError
from gramian.geometry.forms import FORMS, exponent, log10_directions, log_directions

CONFIDENCE_95 = 1.96  # standard errors either side

Matrix = tuple[tuple[float, ...], ...]

#: Covariance of (C, a, b, c), clustered by dimension.
CONSTANTS_COVARIANCE: Matrix = (
    (1.0371443e-02, -2.2006185e-03, -9.1856036e-03, 3.1816737e-04),
    (-2.2006185e-03, 6.8524258e-04, 1.9588975e-03, 6.9211638e-05),
    (-9.1856036e-03, 1.9588975e-03, 8.1480199e-03, -2.6935994e-04),
    (3.1816737e-04, 6.9211638e-05, -2.6935994e-04, 9.8974197e-05),
)

#: The same if residuals were independent.
INDEPENDENT_COVARIANCE: Matrix = (
    (5.9100118e-04, -1.8004340e-04, -4.7713661e-04, 1.6915989e-06),
    (-1.8004340e-04, 1.0174964e-04, 1.4697401e-04, 2.6911681e-05),
    (-4.7713661e-04, 1.4697401e-04, 3.9731277e-04, 4.7877436e-06),
    (1.6915989e-06, 2.6911681e-05, 4.7877436e-06, 1.8488014e-05),
)


@dataclass(frozen=True)
class CapacityUncertainty:
    """Standard errors of log₁₀ k by the `fitted` form, and the 95 % interval they give.

    Attributes
    ----------
    epsilon_log10_se : float or None
        From the standard error of ε; None where that is unknown.
    constants_log10_se : float
        From the covariance of the constants, clustered by dimension.
    constants_log10_se_if_independent : float
        From the plain covariance: too small, for comparison.
    log10_se : float
        Both sources together.
    interval_log10 : (float, float)
        95 %, not below log₁₀ d.
    """

    epsilon_log10_se: float | None
    constants_log10_se: float
    constants_log10_se_if_independent: float
    log10_se: float
    interval_log10: tuple[float, float]


def capacity_uncertainty(dim: int, epsilon: float, *, epsilon_se: float | None = None) -> CapacityUncertainty:
    """Carry the errors of the constants and of ε over to log₁₀ k.

    The constants enter by their gradient (delta method), C by its logarithm, in which the relation is nearly straight.
    The form rises steeply with ε and bends, so the interval takes it at ε ± 1.96 standard errors; on either side the
    two reaches add as independent errors do.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        −1 ≤ ε ≤ 1.
    epsilon_se : float, optional
        Standard error of ε.

    Raises
    ------
    GeometryError
        For values out of range.

    Examples
    --------
    >>> found = capacity_uncertainty(4096, 0.0645, epsilon_se=0.0005)
    >>> round(found.epsilon_log10_se, 3), round(found.constants_log10_se, 3)
    (0.045, 0.228)
    >>> [round(end, 2) for end in found.interval_log10]
    [7.15, 8.06]
    """
    if epsilon_se is not None and not 0 <= epsilon_se < math.inf:
        raise GeometryError(f"a standard error is finite and not negative; it is {epsilon_se}")
    centre = log10_directions(dim, epsilon)
    gradient = constants_gradient(dim, epsilon)
    constants_se = _spread(gradient, CONSTANTS_COVARIANCE)
    low = high = CONFIDENCE_95 * constants_se
    by_epsilon = None
    if epsilon_se is not None:
        f = FORMS["fitted"]
        slope = 2 * exponent(dim, epsilon) / (f.a * f.b * epsilon * math.log(10)) if epsilon > 0 else 0.0
        by_epsilon = slope * epsilon_se
        reach = CONFIDENCE_95 * epsilon_se
        low = math.hypot(low, centre - log10_directions(dim, max(epsilon - reach, -1.0)))
        high = math.hypot(high, log10_directions(dim, min(epsilon + reach, 1.0)) - centre)
    floor = math.log(dim) / math.log(10)
    return CapacityUncertainty(
        epsilon_log10_se=by_epsilon,
        constants_log10_se=constants_se,
        constants_log10_se_if_independent=_spread(gradient, INDEPENDENT_COVARIANCE),
        log10_se=math.hypot(constants_se, by_epsilon or 0.0),
        interval_log10=(max(centre - low, floor), max(centre + high, floor)),
    )


def constants_gradient(dim: int, epsilon: float) -> tuple[float, ...]:
    """∂ log₁₀ k / ∂(C, a, b, c) of the `fitted` form.

    With u = (ε² dᶜ / C)^{1/b}, so that ln k = (ln d + u)/a:

        −u/(abC),   −ln k / a,   −u ln u / (ab),   u ln d / (ab)

    Examples
    --------
    >>> [round(slope, 2) for slope in constants_gradient(4096, 0.0645)]
    [-6.36, -7.13, -6.81, 24.22]
    """
    f = FORMS["fitted"]
    u = exponent(dim, epsilon)
    log_u = math.log(u) if u > 0 else 0.0  # u ln u vanishes at 0
    by_constant = (
        -u / (f.a * f.b * f.C),
        -log_directions(dim, epsilon) / f.a,
        -u * log_u / (f.a * f.b),
        u * math.log(dim) / (f.a * f.b),
    )
    return tuple(slope / math.log(10) for slope in by_constant)


def _spread(gradient: Sequence[float], covariance: Matrix) -> float:
    variance = math.fsum(x * y * covariance[i][j] for i, x in enumerate(gradient) for j, y in enumerate(gradient))
    return math.sqrt(max(variance, 0.0))
