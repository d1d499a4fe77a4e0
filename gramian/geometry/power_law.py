"""Power laws, straight in logarithms, and how a fitted value is told with its error.

NumPy and SciPy, no torch: the HTTP edge fits as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from gramian.errors import GeometryError

Vector = npt.NDArray[np.float64]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A fitted value, its standard error and its 95 % confidence interval."""

    value: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class PowerLawFit:
    """y = e^c · x^slope, by least squares in logarithms.

    Attributes
    ----------
    slope, log_prefactor : Estimate
        With errors from the scatter about the line, Student's t for the intervals.
    residuals : (points,) array
        ln y less the line, in the order of the points.
    """

    slope: Estimate
    log_prefactor: Estimate
    residuals: Vector


def fit_power_law(x: Sequence[float], y: Sequence[float]) -> PowerLawFit:
    """Fit ln y = c + slope · ln x to at least three points.

    Raises
    ------
    GeometryError
        For fewer than three points, fewer than two different x, and values that are not positive and finite.

    Examples
    --------
    >>> fit = fit_power_law([1, 2, 4], [8.0, 4.0, 2.0])
    >>> round(fit.slope.value, 9), round(fit.log_prefactor.value, 6)  # ln 8
    (-1.0, 2.079442)
    """
    u, v = logarithms(x), logarithms(y)
    if len(u) != len(v) or len(u) < 3 or len(set(u.tolist())) < 2:
        raise GeometryError(
            f"a slope with its error needs three points at two different widths or more; there are {len(u)} at "
            f"{len(set(u.tolist()))}",
            hint="add points",
        )
    design = np.stack([u, np.ones_like(u)], axis=1)  # (points, 2)
    (slope, constant), *_ = np.linalg.lstsq(design, v, rcond=None)
    residuals = v - design @ (slope, constant)
    freedom = len(u) - 2
    covariance = np.linalg.inv(design.T @ design) * (residuals @ residuals) / freedom
    quantile = student_quantile(freedom)
    return PowerLawFit(
        estimate(slope, covariance[0, 0], quantile), estimate(constant, covariance[1, 1], quantile), residuals
    )


def logarithms(values: Sequence[float]) -> Vector:
    """Natural logarithms of what must be positive and finite."""
    array = np.asarray(values, np.float64)
    if not (np.isfinite(array) & (array > 0)).all():
        raise GeometryError("widths, and what is fitted in logarithms, are positive and finite")
    return np.log(array)


def estimate(value: float, variance: float, quantile: float) -> Estimate:
    """A value whose interval is so many standard errors wide on either side."""
    error = sqrt(variance)
    return Estimate(float(value), error, float(value) - quantile * error, float(value) + quantile * error)


def student_quantile(freedom: int) -> float:
    """Standard errors on either side of a 95 % interval, by Student's t."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
