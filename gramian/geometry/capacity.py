"""Capacity of a measured space: the published estimate, judged.

The forms are in `forms`, turned round in `inverses`; here their headline becomes an estimate with a status, floors, an
interval and the reasons to read it with care. What is proven about the same number is in `bounds`. `math` only.

Source: A. Guha, Representational Capacity, arXiv:2606.02765, §2.5 and §3.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from gramian.errors import GeometryError
from gramian.geometry.arguments import require_dim
from gramian.geometry.capacity_uncertainty import CapacityUncertainty, capacity_uncertainty
from gramian.geometry.extrapolation import Extrapolation, extrapolation
from gramian.geometry.forms import (
    FORMS,
    Form,
    FormConstants,
    floored_log,
    log10_directions,
    log_directions,
)
from gramian.geometry.inverses import dimension_for, epsilon_for

__all__ = [
    "FORMS",
    "HIGH_EPSILON",
    "LOW_EPSILON",
    "Capacity",
    "Caution",
    "EpsilonClass",
    "Form",
    "FormConstants",
    "capacity",
    "classify_epsilon",
    "dimension_for",
    "epsilon_for",
    "headroom",
    "log10_directions",
    "log10_headroom",
    "log_directions",
    "vocabulary_directions",
]

LOW_EPSILON = 0.1  # the paper's Class 2 lies below; from here on the capacity formula is vacuous
HIGH_EPSILON = 0.2  # the paper's Class 1 lies above
LARGEST_MEASURED_EPSILON = math.sqrt(5)  # max of μ + 2σ for cosines, where σ² ≤ 1 − μ²

EpsilonClass = Literal["low_epsilon", "intermediate", "high_epsilon"]
CautionCode = Literal["epsilon_not_positive", "below_dimension", "extrapolated", "indeterminate"]


class Caution(NamedTuple):
    """A reason to read a number with care."""

    code: CautionCode
    message: str


@dataclass(frozen=True)
class Capacity:
    """How many near-orthogonal directions a space offers.

    Attributes
    ----------
    dim, epsilon : int, float
        What it was computed from.
    status : "estimated" or "indeterminate"
        Indeterminate from ε = 0.1 on: no headline number.
    directions : float or None
        k by the `fitted` form, not below d; None where indeterminate or too large for a float.
    log10_directions : float or None
        Its decimal logarithm; None where indeterminate.
    uncertainty : CapacityUncertainty or None
        From the constants of the fit and, where its standard error is known, from ε; None where indeterminate.
    extrapolation : Extrapolation
        How far (k, d) lies outside of what the fit saw.
    forms : mapping of Form to float
        log₁₀ k by every form, not below log₁₀ d.
    floored : tuple of Form
        Forms that fell below d and were lifted to it.
    cautions : tuple of Caution
        As (code, message).
    """

    dim: int
    epsilon: float
    status: Literal["estimated", "indeterminate"]
    directions: float | None
    log10_directions: float | None
    uncertainty: CapacityUncertainty | None
    extrapolation: Extrapolation
    forms: Mapping[Form, float]
    floored: tuple[Form, ...]
    cautions: tuple[Caution, ...]

    @property
    def interval_log10(self) -> tuple[float, float] | None:
        """95 % interval of log₁₀ k, from the fit's constants and the standard error of ε."""
        return self.uncertainty.interval_log10 if self.uncertainty else None

    @property
    def extrapolated(self) -> bool:
        """Whether (d, k) lies outside of what the fit saw."""
        return not self.extrapolation.inside


def capacity(dim: int, epsilon: float, *, epsilon_se: float | None = None) -> Capacity:
    """Estimate the capacity of a space from its dimension and the measured ε = μ + 2σ.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        −1 ≤ ε ≤ √5, the range of μ + 2σ. Above 1 the forms are taken at 1.
    epsilon_se : float, optional
        Standard error of ε; the interval then holds it beside the error of the fit.

    Raises
    ------
    GeometryError
        For a dimension, ε or standard error out of range.

    Examples
    --------
    >>> estimate = capacity(4096, 0.0645, epsilon_se=0.0005)
    >>> estimate.status, f"{estimate.directions:.3g}", estimate.extrapolated
    ('estimated', '3.99e+07', True)
    >>> [round(end, 2) for end in estimate.interval_log10]
    [7.15, 8.06]
    >>> capacity(4096, 0.1).status
    'indeterminate'
    """
    require_dim(dim)
    if not -1 <= epsilon <= LARGEST_MEASURED_EPSILON:
        raise GeometryError(f"epsilon must lie between -1 and √5, the range of μ + 2σ; it is {epsilon}")
    used = min(epsilon, 1.0)
    uncertainty = capacity_uncertainty(dim, used, epsilon_se=epsilon_se)
    forms = {form: floored_log(dim, used, form) / math.log(10) for form in FORMS}
    floored = tuple(form for form in FORMS if log_directions(dim, used, form) < math.log(dim))
    headline = forms["fitted"]
    estimated = epsilon < LOW_EPSILON
    distance = extrapolation(dim, used, headline)
    return Capacity(
        dim=dim,
        epsilon=epsilon,
        status="estimated" if estimated else "indeterminate",
        directions=_as_float(headline, dim, is_floor="fitted" in floored) if estimated else None,
        log10_directions=headline if estimated else None,
        uncertainty=uncertainty if estimated else None,
        extrapolation=distance,
        forms=MappingProxyType(forms),
        floored=floored,
        cautions=tuple(_cautions(dim, epsilon, below="fitted" in floored, distance=distance)),
    )


def classify_epsilon(epsilon: float) -> EpsilonClass:
    """`low_epsilon` below 0.1 (the paper's Class 2), `high_epsilon` above 0.2 (Class 1), else `intermediate`.

    Examples
    --------
    >>> classify_epsilon(0.0999), classify_epsilon(0.1), classify_epsilon(0.21)
    ('low_epsilon', 'intermediate', 'high_epsilon')
    """
    if epsilon < LOW_EPSILON:
        return "low_epsilon"
    return "high_epsilon" if epsilon > HIGH_EPSILON else "intermediate"


def vocabulary_directions(rows: int, *, tied: bool) -> int:
    """Directions the vocabulary takes up: one a token where both embeddings are one matrix, else two.

    Examples
    --------
    >>> vocabulary_directions(32000, tied=False)
    64000
    """
    return rows if tied else 2 * rows


def headroom(directions: float, used: int) -> float:
    """Directions left for features: capacity less what the vocabulary takes up; negative where it exceeds it.

    Examples
    --------
    >>> headroom(3.99e7, vocabulary_directions(32000, tied=False))
    39836000.0
    """
    return directions - used


def log10_headroom(log10_directions: float, used: int) -> float | None:
    """log₁₀ of the headroom, however many directions there are; None where nothing is left.

    Examples
    --------
    >>> log10_headroom(476.1, 64_000), log10_headroom(4.5, 64_000)
    (476.1, None)
    """
    if used == 0:
        return log10_directions
    share = math.log(used) - log10_directions * math.log(10)  # ln of used / k
    return log10_directions + math.log1p(-math.exp(share)) / math.log(10) if share < 0 else None


def _cautions(dim: int, epsilon: float, *, below: bool, distance: Extrapolation) -> list[Caution]:
    found = []
    if epsilon <= 0:
        found.append(
            Caution(
                "epsilon_not_positive", f"ε = {epsilon:g} is not positive: only {dim} orthogonal directions are counted"
            )
        )
    elif below:
        found.append(
            Caution(
                "below_dimension", f"the fitted form falls below the {dim} orthogonal directions that exist in any case"
            )
        )
    if epsilon >= LOW_EPSILON:
        found.append(
            Caution(
                "indeterminate", f"ε = {epsilon:.4g} is not below {LOW_EPSILON}, where the capacity formula is vacuous"
            )
        )
    if not distance.inside:
        found.append(Caution("extrapolated", distance.words))
    return found


def _as_float(log10: float, dim: int, *, is_floor: bool) -> float | None:
    if is_floor:
        return float(dim)
    try:
        return math.pow(10, log10)
    except OverflowError:
        return None
