"""Fits of scaling with width: losses, L = A/m^α + B, and overlaps, m₂ ∝ d^β; and what a width exponent follows from.

NumPy and SciPy, no torch: the HTTP edge fits as well.

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §4, which fits the losses of 27 models on 4 data sets with
α = 0.91 ± 0.04 and A ≈ 476.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from gramian.errors import GeometryError
from gramian.geometry.power_law import (
    CONFIDENCE,
    Estimate,
    PowerLawFit,
    Vector,
    estimate,
    fit_power_law,
    logarithms,
    student_quantile,
)

CHINCHILLA_PARAMETERS_PER_WIDTH = 2.52  # N ∝ m^2.52 over the Chinchilla models [L25 §4]
PUBLISHED_EXPONENT, PUBLISHED_EXPONENT_ERROR = 0.91, 0.04  # α_m over 27 language models on 4 data sets [L25 §4]
ISOTROPIC_SLOPE = -1.0  # of ln m₂ against ln d
LARGEST_LOGARITHM = 700.0  # e^709 is the largest double
ROUNDING = 1e-13  # of the largest loss: less of a fall with width is none


# -- overlap against width ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OverlapPoint:
    """A matrix: the family of models that it is of, its columns d and its mean squared overlap m₂."""

    family: str
    dim: int
    mean_square: float


@dataclass(frozen=True, eq=False)
class OverlapFit:
    """ln m₂ against ln d; isotropic vectors have slope −1.

    Attributes
    ----------
    overall : PowerLawFit
        Through all points.
    families : mapping of family to PowerLawFit or None
        None where a family has fewer than three points or two dimensions.
    """

    overall: PowerLawFit
    families: Mapping[str, PowerLawFit | None]


def fit_overlap_exponent(points: Sequence[OverlapPoint]) -> OverlapFit:
    """How the mean squared overlap falls with width, over all models and within each family.

    Raises
    ------
    GeometryError
        As `fit_power_law`, for all points together.

    Examples
    --------
    >>> fit = fit_overlap_exponent([OverlapPoint("ideal", d, 1 / d) for d in (64, 128, 256)])
    >>> round(fit.overall.slope.value, 6), round(fit.families["ideal"].slope.value, 6)
    (-1.0, -1.0)
    """
    groups: dict[str, list[OverlapPoint]] = {}
    for point in points:
        groups.setdefault(point.family, []).append(point)
    return OverlapFit(_fit_points(points), MappingProxyType({name: _fit_group(of) for name, of in groups.items()}))


def _fit_group(points: Sequence[OverlapPoint]) -> PowerLawFit | None:
    enough = len(points) >= 3 and len({point.dim for point in points}) >= 2
    return _fit_points(points) if enough else None


def _fit_points(points: Sequence[OverlapPoint]) -> PowerLawFit:
    return fit_power_law([point.dim for point in points], [point.mean_square for point in points])


# -- loss against width ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LossSeries:
    """Losses of one model family on one data set, by width.

    Attributes
    ----------
    name : str
        Whatever tells the series from others.
    dims, losses : tuple
        Widths m and losses L, as many of each.
    standard_errors : tuple, optional
        Of the losses. Without them all losses count alike, and their scatter tells the errors.
    """

    name: str
    dims: tuple[float, ...]
    losses: tuple[float, ...]
    standard_errors: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class LossFit:
    """L = A/m^α + B_s.

    Attributes
    ----------
    alpha, amplitude : Estimate
        Shared by all series. The interval of A is that of ln A: it is not symmetric.
    offsets : mapping of series name to Estimate
        B_s, what no width removes.
    covariance : (2 + series, 2 + series) array
        Of α, ln A, B_1, B_2, …
    residuals : mapping of series name to array
        Losses less the fit, in the order of the series.
    degrees_of_freedom : int
        Points less parameters.
    reduced_chi_square : float or None
        About 1 where the given standard errors explain the scatter; None where none were given.
    """

    alpha: Estimate
    amplitude: Estimate
    offsets: Mapping[str, Estimate]
    covariance: npt.NDArray[np.float64]
    residuals: Mapping[str, Vector]
    degrees_of_freedom: int
    reduced_chi_square: float | None


def fit_loss_exponent(series: Sequence[LossSeries]) -> LossFit:
    """Fit one A and one α to all series and an offset to each, by weighted non-linear least squares.

    For a given α the model is linear, so the best α is looked for along one line first: no starting values, no local
    minimum. All parameters are then refined together, and the covariance is that of the linearised model there.

    Raises
    ------
    GeometryError
        For series without a name of their own, values out of range, standard errors for some series only, fewer than
        three different widths in every series, no more points than parameters, and losses that do not fall with width.

    Examples
    --------
    >>> widths = (64.0, 128.0, 256.0, 512.0, 1024.0)
    >>> fit = fit_loss_exponent([LossSeries("planted", widths, tuple(50 / m**0.9 + 2 for m in widths))])
    >>> round(fit.alpha.value, 6), round(fit.amplitude.value, 4), round(fit.offsets["planted"].value, 6)
    (0.9, 50.0, 2.0)
    """
    _require_fittable(series)
    u = np.concatenate([logarithms(s.dims) for s in series])  # (points,) ln m
    L = np.concatenate([np.asarray(s.losses, np.float64) for s in series])  # (points,)
    member = np.concatenate([np.full(len(s.dims), i) for i, s in enumerate(series)])  # (points,)
    indicator = (member[:, None] == np.arange(len(series))).astype(np.float64)  # (points, series)
    errors_given = series[0].standard_errors is not None
    sigma = np.concatenate([np.asarray(s.standard_errors or np.ones(len(s.dims)), np.float64) for s in series])
    centre = float(u.mean())  # A is fitted at the mean width: far from the data it is one with α

    def model(parameters: Vector) -> Vector:
        alpha, log_a, *offsets = parameters
        result: Vector = np.exp(log_a - alpha * (u - centre)) + indicator @ np.asarray(offsets)
        return result

    def scaled_residuals(parameters: Vector) -> Vector:
        result: Vector = (model(parameters) - L) / sigma
        return result

    def jacobian(parameters: Vector) -> Vector:
        alpha, log_a, *_ = parameters
        power = np.exp(log_a - alpha * (u - centre))
        columns = np.column_stack([-(u - centre) * power, power, indicator])  # (points, 2 + series)
        result: Vector = columns / sigma[:, None]
        return result

    def linear(alpha: float) -> tuple[Vector, float]:
        design = np.column_stack([np.exp(-alpha * (u - centre)), indicator]) / sigma[:, None]
        coefficients, *_ = np.linalg.lstsq(design, L / sigma, rcond=None)
        rest = design @ coefficients - L / sigma
        return coefficients, float(rest @ rest)

    alphas = np.geomspace(0.05, 10, 40)
    start = min(alphas.tolist(), key=lambda alpha: linear(alpha)[1])
    amplitude, *offsets = linear(start)[0]
    if amplitude * np.ptp(np.exp(-start * (u - centre))) <= ROUNDING * np.abs(L).max():
        raise GeometryError("these losses do not fall with width", hint="check that each point is a (width, loss) pair")
    from scipy.optimize import least_squares  # noqa: PLC0415 - 50 MB, which a process that fits nothing need not hold

    with np.errstate(over="ignore", invalid="ignore"):  # a step too far is rejected; if none is good, see below
        found = least_squares(
            scaled_residuals, [start, log(amplitude), *offsets], jac=jacobian, method="lm", xtol=1e-12, ftol=1e-12
        )
    J = found.jac
    freedom = len(L) - len(found.x)
    chi_square = float(found.fun @ found.fun)
    try:
        covariance = np.linalg.inv(J.T @ J)
    except np.linalg.LinAlgError:
        covariance = np.full((len(found.x), len(found.x)), np.inf)
    if not np.isfinite(covariance).all() or (np.diag(covariance) < 0).any():
        raise GeometryError("these points do not determine a slope beside the offsets", hint="add widths further apart")
    if not errors_given:
        covariance = covariance * chi_square / freedom
    to_unit_width = np.eye(len(found.x))
    to_unit_width[1, 0] = centre  # ln A = ln A(mean width) + α·(mean of ln m)
    covariance = to_unit_width @ covariance @ to_unit_width.T
    alpha, log_amplitude, *levels = to_unit_width @ found.x

    quantile = float(ndtri((1 + CONFIDENCE) / 2)) if errors_given else student_quantile(freedom)
    in_log = estimate(log_amplitude, covariance[1, 1], quantile)
    A = _exp(in_log.value)
    residuals = L - model(found.x)
    return LossFit(
        alpha=estimate(alpha, covariance[0, 0], quantile),
        amplitude=Estimate(A, A * in_log.standard_error, _exp(in_log.low), _exp(in_log.high)),
        offsets=MappingProxyType(
            {
                s.name: estimate(B, covariance[2 + i, 2 + i], quantile)
                for i, (s, B) in enumerate(zip(series, levels, strict=True))
            }
        ),
        covariance=covariance,
        residuals=MappingProxyType({s.name: residuals[member == i] for i, s in enumerate(series)}),
        degrees_of_freedom=freedom,
        reduced_chi_square=chi_square / freedom if errors_given else None,
    )


def _exp(logarithm: float) -> float:
    return exp(logarithm) if logarithm <= LARGEST_LOGARITHM else inf


def _require_fittable(series: Sequence[LossSeries]) -> None:
    if len({s.name for s in series}) < len(series) or not series:
        raise GeometryError("give at least one series, each with a name of its own")
    for s in series:
        logarithms(s.dims)
        if not len(s.dims) == len(s.losses) == len(s.standard_errors or s.losses):
            raise GeometryError(f"series {s.name!r} needs as many losses, and standard errors, as widths")
        if not np.isfinite(s.losses).all():
            raise GeometryError(f"the losses of series {s.name!r} are not all finite")
        if s.standard_errors is not None and not all(0 < e < float("inf") for e in s.standard_errors):
            raise GeometryError(f"the standard errors of series {s.name!r} are not all positive and finite")
    if len({s.standard_errors is None for s in series}) > 1:
        raise GeometryError("give standard errors for all series or for none")
    points, parameters = sum(len(s.dims) for s in series), 2 + len(series)
    if points <= parameters or max(len(set(s.dims)) for s in series) < 3:
        raise GeometryError(
            f"{parameters} parameters need more points than that, and one series of three different widths; there are "
            f"{points} points",
            hint="add points, or leave out series with one point, which tell nothing but their own offset",
        )


# -- from parameters to width ---------------------------------------------------------------------------------


def width_exponent(
    parameter_exponent: float, *, parameters_per_width: float = CHINCHILLA_PARAMETERS_PER_WIDTH
) -> float:
    """α_m that a loss exponent α_N in parameters implies where N ∝ m^2.52: L ∝ N^{−α_N} = m^{−2.52·α_N}.

    Examples
    --------
    >>> round(width_exponent(0.35), 2)
    0.88
    """
    return parameters_per_width * parameter_exponent
