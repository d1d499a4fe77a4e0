"""Capacity: how many directions a d-dimensional space offers within ε of orthogonality, by published formulas.

Four forms of one relation between the number of directions k, the dimension d and ε,

    ln k = (ln P + (ε² dᶜ / C)^{1/b}) / a        ⇔        ε = √(C · (a ln k − ln P)ᵇ / dᶜ)

with P = d or 1. The headline form, `fitted`, was fitted to packings that gradient descent found for 166 pairs
(k, d). What it says is therefore **reachable by descent (published fit)**, extrapolated to real models; it is not an
upper bound of geometry: explicit constructions hold more directions at the same ε for nearly every published model.

Equation (7) as printed in the paper applies the outer 1/a to the exponential alone, k = d · (exp …)^{1/a}. The
published code, and all 31 finite rows of the paper's Table 1 (within 0.46 %), apply it to the whole product, as
above.

Everything is computed with logarithms, so that nothing overflows. This module needs `math` only.

Symbols: k directions, d dimensions (the paper's code calls them n), ε the accepted deviation from orthogonality.

Source: A. Guha, Representational Capacity, arXiv:2606.02765, §3, and its code, Alex-Guha/representational-capacity.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from gramian.errors import GeometryError

# -- the forms ------------------------------------------------------------------------------------------------

Form = Literal["fitted", "ratio", "jl_random", "jl_proven"]


@dataclass(frozen=True)
class FormConstants:
    """The constants of one form; `per_dimension` tells whether P is d or 1."""

    C: float
    a: float = 1.0
    b: float = 1.0
    c: float = 1.0
    per_dimension: bool = True


FORMS: Mapping[Form, FormConstants] = MappingProxyType(
    {
        # Four parameters, fitted to all 166 optimised packings (arXiv:2606.02765, eq. 7).
        "fitted": FormConstants(C=0.45809143, a=1.0668005, b=1.44738666, c=0.97197234),
        # One parameter, fitted to the same packings, in k/d in place of k.
        "ratio": FormConstants(C=1.2934008),
        # Johnson–Lindenstrauss, its constant fitted to the best of 1000 random draws.
        "jl_random": FormConstants(C=3.029, per_dimension=False),
        # Johnson–Lindenstrauss, with the constant of the proof.
        "jl_proven": FormConstants(C=8.0, per_dimension=False),
    }
)

LOW_EPSILON = 0.1  # the paper's Class 2 lies below; from here on the capacity formula is vacuous
HIGH_EPSILON = 0.2  # the paper's Class 1 lies above
LARGEST_MEASURED_EPSILON = math.sqrt(5)  # max of μ + 2σ for cosines, where σ² ≤ 1 − μ²
LARGEST_DIM = 2**53  # beyond, integers are no longer exact as floats
CONFIDENCE_95 = 1.96  # standard errors either side

# What the fit saw: outside, it extrapolates.
FITTED_DIMS = (32, 4096)
FITTED_LOG_DIRECTIONS = (math.log(2_000), math.log(32_000))
FITTED_EPSILON_AT_LARGEST_DIM = 0.025

SLACK = 1e-14  # of a logarithm: ln 1000 and 3 ln 10 are the same number of directions


def log_directions(dim: int, epsilon: float, form: Form = "fitted") -> float:
    """ln k, as the form has it.

    Below ε = 0 the formula, which sees ε², is held at its value at 0. It may fall below ln d, though d exactly
    orthogonal directions always exist: `capacity` lifts it to that floor and says so.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        Accepted deviation from orthogonality, a cosine: −1 ≤ ε ≤ 1.
    form : Form
        Which relation.

    Raises
    ------
    GeometryError
        For a dimension or ε out of range.

    Examples
    --------
    >>> f"{math.exp(log_directions(4096, 0.0645)):.3g}"
    '3.99e+07'
    >>> f"{math.exp(log_directions(4096, 0.0645, 'jl_proven')):.2g}"
    '8.4'
    """
    _require_dim(dim)
    _require_cosine(epsilon)
    f = FORMS[form]
    exponent = math.pow(max(epsilon, 0.0) ** 2 * math.pow(dim, f.c) / f.C, 1 / f.b)
    return (_log_prefactor(dim, f) + exponent) / f.a


def log10_directions(dim: int, epsilon: float, form: Form = "fitted") -> float:
    """log₁₀ k, as the form has it; see `log_directions`.

    Examples
    --------
    >>> round(log10_directions(16384, 1.0), 1)
    476.1
    """
    return log_directions(dim, epsilon, form) / math.log(10)


# -- the forms turned round -----------------------------------------------------------------------------------


def epsilon_for(
    dim: int,
    directions: float | None = None,
    *,
    log10_directions: float | None = None,
    form: Form = "fitted",
) -> float:
    """The least ε at which d dimensions offer k directions; 0 where k ≤ d, since orthogonal ones suffice.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    directions, log10_directions : float
        k ≥ 1, or its decimal logarithm: one of the two.
    form : Form
        Which relation.

    Raises
    ------
    GeometryError
        For values out of range, and where even ε = 1 gives fewer directions.

    Examples
    --------
    >>> round(epsilon_for(4096, 3.99e7), 4)
    0.0645
    >>> epsilon_for(4096, 4096)
    0.0
    """
    _require_dim(dim)
    log_k = _log_count(directions, log10_directions)
    if _reaches(math.log(dim), log_k):
        return 0.0
    f = FORMS[form]
    excess = max(f.a * log_k - _log_prefactor(dim, f), 0.0)
    epsilon = math.sqrt(f.C * math.pow(excess, f.b) / math.pow(dim, f.c))
    if epsilon > 1 and _reaches(_floored(dim, 1.0, form), log_k):
        return 1.0  # it was rounding that went beyond
    if epsilon > 1:
        most, wanted = _floored_log10(dim, 1.0, form), log_k / math.log(10)
        raise GeometryError(
            f"form {form!r} has at most 10^{most:.4g} directions in {dim} dimensions, not 10^{wanted:.4g}",
            hint="ask for fewer directions or more dimensions",
        )
    return epsilon


def dimension_for(
    epsilon: float,
    directions: float | None = None,
    *,
    log10_directions: float | None = None,
    form: Form = "fitted",
) -> int:
    """The smallest dimension that offers k directions at ε; at most k, which orthogonal directions need.

    Parameters
    ----------
    epsilon : float
        Accepted deviation from orthogonality, −1 ≤ ε ≤ 1.
    directions, log10_directions : float
        k ≥ 1, or its decimal logarithm: one of the two.
    form : Form
        Which relation.

    Raises
    ------
    GeometryError
        For values out of range, and where 2⁵³ dimensions are too few.

    Examples
    --------
    >>> dimension_for(0.09, 1e8)
    2514
    >>> dimension_for(0.0, 1000)
    1000
    """
    _require_cosine(epsilon)
    log_k = _log_count(directions, log10_directions)

    def suffices(dim: int) -> bool:
        return _reaches(_floored(dim, epsilon, form), log_k)  # rises with dim: both the form and the floor do

    enough = 1
    while not suffices(enough):
        enough *= 2
        if enough > LARGEST_DIM:
            raise GeometryError(
                f"form {form!r} needs more than 2^53 dimensions for 10^{log_k / math.log(10):.4g} directions at "
                f"epsilon {epsilon:g}",
                hint="ask for fewer directions or a larger epsilon",
            )
    too_few = enough // 2  # 0 when one dimension suffices
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if suffices(middle):
            enough = middle
        else:
            too_few = middle
    return enough


# -- capacity of a measured space -----------------------------------------------------------------------------

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
    interval_log10 : (float, float) or None
        The form at ε ± 1.96 standard errors, not below d: the uncertainty of ε alone, not of the fit.
    extrapolated : bool
        Whether (d, k) lies outside what the fit saw: 32 ≤ d ≤ 4096, 2,000 ≤ k ≤ 32,000, ε ≤ 0.025 from d = 4096.
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
    interval_log10: tuple[float, float] | None
    extrapolated: bool
    forms: Mapping[Form, float]
    floored: tuple[Form, ...]
    cautions: tuple[Caution, ...]


def capacity(dim: int, epsilon: float, *, epsilon_se: float | None = None) -> Capacity:
    """Estimate the capacity of a space from its dimension and the measured ε = μ + 2σ.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        −1 ≤ ε ≤ √5, the range of μ + 2σ. Above 1 the forms are taken at 1.
    epsilon_se : float, optional
        Standard error of ε; gives the interval.

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
    [7.51, 7.69]
    >>> capacity(4096, 0.1).status
    'indeterminate'
    """
    _require_dim(dim)
    if not -1 <= epsilon <= LARGEST_MEASURED_EPSILON:
        raise GeometryError(f"epsilon must lie between -1 and √5, the range of μ + 2σ; it is {epsilon}")
    if epsilon_se is not None and not 0 <= epsilon_se < math.inf:
        raise GeometryError(f"a standard error is finite and not negative; it is {epsilon_se}")

    forms = {form: _floored_log10(dim, epsilon, form) for form in FORMS}
    floored = tuple(form for form in FORMS if log_directions(dim, min(epsilon, 1.0), form) < math.log(dim))
    headline = forms["fitted"]
    estimated = epsilon < LOW_EPSILON
    interval = None
    if estimated and epsilon_se is not None:
        reach = CONFIDENCE_95 * epsilon_se
        interval = (
            _floored_log10(dim, epsilon - reach, "fitted"),
            _floored_log10(dim, epsilon + reach, "fitted"),
        )
    extrapolated = _extrapolates(dim, epsilon, headline * math.log(10))
    return Capacity(
        dim=dim,
        epsilon=epsilon,
        status="estimated" if estimated else "indeterminate",
        directions=_as_float(headline, dim, is_floor="fitted" in floored) if estimated else None,
        log10_directions=headline if estimated else None,
        interval_log10=interval,
        extrapolated=extrapolated,
        forms=MappingProxyType(forms),
        floored=floored,
        cautions=tuple(_cautions(dim, epsilon, below="fitted" in floored, extrapolated=extrapolated)),
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


def _cautions(dim: int, epsilon: float, *, below: bool, extrapolated: bool) -> list[Caution]:
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
    if extrapolated:
        found.append(
            Caution(
                "extrapolated",
                "outside the packings the formula was fitted to: 32 to 4,096 dimensions, 2,000 to 32,000 directions, "
                "and at 4,096 dimensions ε up to 0.025",
            )
        )
    return found


def _extrapolates(dim: int, epsilon: float, log_k: float) -> bool:
    fewest, most = FITTED_LOG_DIRECTIONS
    smallest, largest = FITTED_DIMS
    return (
        not smallest <= dim <= largest
        or not fewest <= log_k <= most
        or (dim == largest and epsilon > FITTED_EPSILON_AT_LARGEST_DIM)
    )


def _floored(dim: int, epsilon: float, form: Form) -> float:
    return max(log_directions(dim, epsilon, form), math.log(dim))


def _floored_log10(dim: int, epsilon: float, form: Form) -> float:
    return _floored(dim, min(max(epsilon, -1.0), 1.0), form) / math.log(10)


def _as_float(log10: float, dim: int, *, is_floor: bool) -> float | None:
    if is_floor:
        return float(dim)
    try:
        return math.pow(10, log10)
    except OverflowError:
        return None


def _log_prefactor(dim: int, form: FormConstants) -> float:
    return math.log(dim) if form.per_dimension else 0.0


def _reaches(log_have: float, log_want: float) -> bool:
    return log_have >= log_want * (1 - SLACK)


def _log_count(directions: float | None, log10_directions: float | None) -> float:
    if (directions is None) == (log10_directions is None):
        raise GeometryError("give the number of directions or its log10, one of the two")
    if log10_directions is not None:
        if not 0 <= log10_directions < math.inf:
            raise GeometryError(f"log10 of a number of directions is finite and not negative; it is {log10_directions}")
        return log10_directions * math.log(10)
    if directions is None or not 1 <= directions < math.inf:
        raise GeometryError(f"a number of directions is finite and at least 1; it is {directions}")
    return math.log(directions)


def _require_dim(dim: int) -> None:
    if not 1 <= dim <= LARGEST_DIM:
        raise GeometryError(f"a dimension lies between 1 and 2^53; it is {dim}")


def _require_cosine(epsilon: float) -> None:
    if not -1 <= epsilon <= 1:
        raise GeometryError(f"epsilon is a cosine, between -1 and 1; it is {epsilon}")
