"""Levenshtein's bounds: no set of lines with |cos| ≤ ε in R^d is larger.

Two bounds come from one recurrence. With P_i the Gegenbauer polynomials of dimension d, P_i(1) = 1, and z_j the largest
zero of P_j − P_{j+2} (the largest zero but 1; z_1 = 0), let z_{j−1} ≤ ε ≤ z_j.

**From codes on the sphere.** Lines with |cos| ≤ ε, both of their unit vectors taken, are a spherical code of twice
their number with cosines of at most ε or −1, so k ≤ L(d, ε)/2 where

    L_{2j−1} = C(j+d−3, j−1) · [(2j+d−3)/(d−1) − (P_{j−1} − P_j)/((1−ε) P_j)]                        where P_j ≤ P_{j+1}
    L_{2j}   = C(j+d−2, j) · [(2j+d−1)/(d−1) − (1+ε)(P_j − P_{j+1})/((1−ε)(P_j + P_{j+1}))]         elsewhere

**From lines themselves.** Read as points of projective space, whose zonal polynomials are the P_{2i}, they are at most

    k ≤ C(j+d−3, j−2) · [1 − (d−1)(P_{j−2} − P_j)/((2j+d−4)(1−ε²) P_j)]                             for j ≥ 2

the same at each z_j, C(j+d−1, j), and lower between, by more than an order of magnitude at small ε. Its first two
pieces are d(1−ε²)/(1−dε²), which equiangular lines reach, and d(d+2)(1−ε²)/(3−(d+2)ε²), which Kerdock's bases reach.

The recurrence P_{i+1} = ((2i+d−2) ε P_i − i P_{i−1})/(i+d−2) runs in integers of some 60 digits, P_i shrinks below any
double. ε is rounded up to them, and results are rounded up, so that what is returned stays a bound.

Beyond `LARGEST_DEGREE` (for d ≤ 16384 that is ε > 0.96) the step to the next z_j is taken: k ≤ C(j+d−1, j) for any j
that is certain to have z_j ≥ ε. Whichever is lower of this and the bound by disjoint caps is the answer there.

Sources: V. I. Levenshtein, Acta Appl. Math. 29 (1992) and Handbook of Coding Theory (1998), ch. 6; P. Delsarte,
J. M. Goethals, J. J. Seidel, Philips Res. Repts. 30 (1975), for the first two projective bounds.
"""

import math
from dataclasses import dataclass
from typing import Literal

from gramian.geometry.arguments import require_lines
from gramian.geometry.gamma_ratios import log_binomial
from gramian.geometry.random_lines import log_probability_beyond

LARGEST_DEGREE = 25_000  # steps of the recurrence, a microsecond each
_BITS = 192  # of the fraction in the recurrence; terms are kept above 2^(_BITS / 2)
_ROUNDING = 1e-12  # added to logarithms, relatively: more than they can be in error


@dataclass(frozen=True)
class UpperBounds:
    """Upper bounds on the number of lines with |cos| ≤ ε, as log₁₀; infinite at ε = 1.

    Attributes
    ----------
    sphere_log10 : float
        Half of Levenshtein's bound for spherical codes.
    lines_log10 : float
        Levenshtein's bound in projective space, never above the former.
    method : "orthogonal", "levenshtein", "next_degree", "caps" or "unbounded"
        What gave them: exact at ε = 0 and in one dimension; the formulas; for very high degrees the step to the next
        zero; disjoint caps; ε = 1, where every set of lines is admitted.
    degree : int or None
        j, where the formulas were used or the next zero.
    """

    sphere_log10: float
    lines_log10: float
    method: Literal["orthogonal", "levenshtein", "next_degree", "caps", "unbounded"]
    degree: int | None = None


def upper_bounds(dim: int, epsilon: float, *, largest_degree: int = LARGEST_DEGREE) -> UpperBounds:
    """The largest number of lines with |cos| ≤ ε in d dimensions is at most this.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        Cosine, 0 ≤ ε ≤ 1.
    largest_degree : int
        From which j on the step to the next zero will do: curves of many points take fewer.

    Raises
    ------
    GeometryError
        For values out of range.

    Examples
    --------
    >>> found = upper_bounds(4096, 0.0645)
    >>> round(found.sphere_log10, 4), round(found.lines_log10, 4)
    (24.1058, 23.3228)
    >>> round(10 ** upper_bounds(8, 0.5).lines_log10, 6)  # the root lines of E8
    120.0
    """
    require_lines(dim, epsilon)
    if dim == 1 or epsilon == 0:
        return UpperBounds(math.log10(dim), math.log10(dim), "orthogonal")
    if epsilon == 1:
        return UpperBounds(math.inf, math.inf, "unbounded")
    caps = caps_log10(dim, epsilon)
    degree = sufficient_degree(dim, epsilon)
    if degree is None or degree > largest_degree:
        stepped = math.inf if degree is None else _rounded_up(log_binomial(degree + dim - 1, degree) / math.log(10))
        if caps <= stepped:
            return UpperBounds(caps, caps, "caps")
        return UpperBounds(stepped, stepped, "next_degree", degree)
    found = _levenshtein(dim, epsilon)
    if caps < found.lines_log10:
        return UpperBounds(min(found.sphere_log10, caps), caps, "caps")
    return found


def caps_log10(dim: int, epsilon: float) -> float:
    """log₁₀ of the bound by volume: caps of half the least angle around every line do not meet.

    They hold all lines within ½ arccos ε of their centre, those whose |cos| with it exceeds √((1 + ε)/2).

    Examples
    --------
    >>> round(10 ** caps_log10(2, 0.5), 9)  # 60° apart: exact in the plane
    3.0
    """
    return _rounded_up(-log_probability_beyond(dim, (1 + epsilon) / 2, (1 - epsilon) / 2) / math.log(10))


def sufficient_degree(dim: int, epsilon: float) -> int | None:
    """A degree j that is certain to have z_j ≥ ε; None if rounding leaves it uncertain for all j.

    z_j is the largest eigenvalue of the j×j Jacobi matrix with β_i² = i(i+d−1)/((2i+d)(2i+d−2)) beside its zero
    diagonal. β grows with i, so the last m rows and columns alone have an eigenvalue of at least
    2 β_{j−m+1} cos(π/(m+1)).
    """
    most = 1
    while _largest_zero_at_least(dim, most) < epsilon:
        most *= 2
        if most > 2**60:
            return None
    least = most // 2
    while most - least > max(1, most >> 20):  # a millionth of a huge degree does not matter
        middle = (most + least) // 2
        if _largest_zero_at_least(dim, middle) < epsilon:
            least = middle
        else:
            most = middle
    return most


def _largest_zero_at_least(dim: int, degree: int) -> float:
    """A lower bound of z_j, the best over sizes m; a little less for the sake of rounding."""
    best = 0.0
    size = 2
    while size <= degree:
        i = degree - size + 1
        beta = math.sqrt(i / (2 * i + dim) * ((i + dim - 1) / (2 * i + dim - 2)))
        best = max(best, 2 * beta * math.cos(math.pi / (size + 1)))
        size *= 2
    return best * (1 - 1e-15)


def _levenshtein(dim: int, epsilon: float) -> UpperBounds:
    d = dim
    one = 1 << _BITS
    numerator, denominator = epsilon.as_integer_ratio()
    s = -((-numerator << _BITS) // denominator)  # ε, rounded up
    j = 1
    earlier, before, here, after = 0, one, s, _next(d, 1, s, one, s)  # P_{j−2}, P_{j−1}, P_j, P_{j+1}
    coming = _next(d, 2, s, here, after)  # P_{j+2}
    while here > coming:  # ε > z_j
        j += 1
        earlier, before, here, after = before, here, after, coming
        if max(abs(here), abs(after)) < 1 << _BITS // 2:  # only their quotients count
            earlier, before, here, after = (p << _BITS // 2 for p in (earlier, before, here, after))
        coming = _next(d, j + 1, s, here, after)

    # each bracket of the formulas as a quotient of two integers
    if here <= after:
        count, over = log_binomial(j + d - 3, j - 1), (d - 1) * (one - s) * here
        sphere = (2 * j + d - 3) * (one - s) * here - (d - 1) * one * (before - here), over
    else:
        count, over = log_binomial(j + d - 2, j), (d - 1) * (one - s) * (here + after)
        sphere = (2 * j + d - 1) * (one - s) * (here + after) - (d - 1) * (one + s) * (here - after), over
    sphere_log10 = _log10_of(count, sphere) - math.log10(2)

    weight = (2 * j + d - 4) * (one * one - s * s) * here
    lines = weight - (d - 1) * one * one * (earlier - here), weight
    lines_log10 = _log10_of(log_binomial(j + d - 3, j - 2), lines)
    return UpperBounds(_rounded_up(sphere_log10), _rounded_up(lines_log10), "levenshtein", j)


def _next(d: int, i: int, s: int, before: int, here: int) -> int:
    """P_{i+1} from P_{i−1} and P_i."""
    return (((2 * i + d - 2) * s * here >> _BITS) - i * before) // (i + d - 2)


def _log10_of(log_count: float, ratio: tuple[int, int]) -> float:
    over, under = (abs(term) for term in ratio)  # of one sign: both negative below the zero of P_j
    return log_count / math.log(10) + math.log10(over) - math.log10(under)


def _rounded_up(log10: float) -> float:
    return log10 + _ROUNDING * max(1.0, log10)
