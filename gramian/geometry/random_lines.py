"""How likely two random lines overlap by more than ε, and the packings that follow from this number alone.

A line is a vector up to its sign. For two independent, uniformly distributed lines in R^d the squared cosine has the
Beta(½, (d − 1)/2) distribution, hence exactly

    p(d, ε) = P(|cos| > ε) = 1 − I_{ε²}(½, (d − 1)/2) = I_{1−ε²}((d − 1)/2, ½)

with the regularised incomplete beta function I. p may be 10⁻³⁰⁰⁰, so its logarithm is computed, by a series or a
continued fraction for ln I itself. `math` only.

Sources: T. T. Cai, J. Fan, T. Jiang, J. Mach. Learn. Res. 14 (2013), for the law; NIST Digital Library of
Mathematical Functions, 8.17, for series and continued fraction; E. N. Gilbert, Bell Syst. Tech. J. 31 (1952), for the
greedy argument.
"""

import math

from gramian.geometry.arguments import require_lines
from gramian.geometry.gamma_ratios import log_gamma_ratio

_CONVERGED = 1e-16
_SERIES_BELOW = 1.5  # of (d − 1)ε²/2: up to here the series is short, beyond it the fraction is


def log_overlap_probability(dim: int, epsilon: float) -> float:
    """ln P(|cos| > ε) for two random lines in d dimensions; −inf at ε = 1, save in one dimension.

    In one dimension there is one line only, which any two draws share: the probability is 1.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        Cosine, 0 ≤ ε ≤ 1.

    Raises
    ------
    GeometryError
        For values out of range.

    Examples
    --------
    >>> round(math.exp(log_overlap_probability(2, 0.5)), 12)  # 1 − (2/π) arcsin ½
    0.666666666667
    >>> round(log_overlap_probability(16384, 0.9) / math.log(10))
    -5910
    """
    require_lines(dim, epsilon)
    return log_probability_beyond(dim, epsilon * epsilon, (1 - epsilon) * (1 + epsilon))


def log_probability_beyond(dim: int, square: float, rest: float) -> float:
    """The same from ε² and 1 − ε², for cosines so near 1 that 1 − ε² is known better than ε.

    Examples
    --------
    >>> round(log_probability_beyond(3, 1.0, 1e-40) / math.log(10), 9)  # 1 − ε is half of 10⁻⁴⁰
    -40.301029996
    """
    if dim == 1 or square == 0:
        return 0.0
    if rest == 0:
        return -math.inf
    a = (dim - 1) / 2
    log_rest = math.log1p(-square) if square < 0.25 else math.log(rest)
    # ln of (1 − ε²)ᵃ / B(a, ½), the factor that both expansions share
    log_front = a * log_rest + log_gamma_ratio(a, 0.5) - math.log(math.pi) / 2
    if square <= 0.5 and a * square <= _SERIES_BELOW:
        return math.log1p(-2 * math.sqrt(square) * math.exp(log_front) * _series(a, square))
    return log_front - math.log(square) / 2 - math.log(a) + math.log(_continued_fraction(a, rest / square))


def greedy_log10(dim: int, epsilon: float) -> float:
    """log₁₀ of 1/p: so many lines with |cos| ≤ ε exist (Gilbert–Varshamov).

    Choose lines one by one as long as any is left whose |cos| with all chosen ones is at most ε. A chosen line rules
    out the fraction p of all lines, so the choice cannot end before k·p ≥ 1. Infinite at ε = 1, save in one dimension.

    Examples
    --------
    >>> round(greedy_log10(4096, 0.0645), 3)
    4.443
    """
    return -log_overlap_probability(dim, epsilon) / math.log(10) + 0.0  # + 0: no negative zero


def random_log10(dim: int, epsilon: float) -> float:
    """log₁₀ of √(2 ln 2 / p): so many random lines have an even chance that no pair exceeds ε.

    There are about k²/2 pairs, nearly independent, each below ε with probability 1 − p: their joint chance
    exp(−k²p/2) is one half at this k. Infinite at ε = 1, save in one dimension.

    Examples
    --------
    >>> round(random_log10(4096, 0.0645), 3)
    2.293
    """
    return (math.log(2 * math.log(2)) - log_overlap_probability(dim, epsilon)) / (2 * math.log(10))


def _series(a: float, x: float) -> float:
    """Σ_i (a + ½)_i / (3/2)_i · xⁱ, with I_x(½, a) = 2 √x (1 − x)ᵃ / B(½, a) times this."""
    total = term = 1.0
    i = 0
    while term > _CONVERGED * total:
        term *= (a + 0.5 + i) / (1.5 + i) * x
        total += term
        i += 1
    return total


def _continued_fraction(a: float, w: float) -> float:
    """₂F₁(½, 1; a + 1; −w), by Gauss's fraction 1/(1 + a₁w/(1 + a₂w/(1 + …))), evaluated forward.

    With it I_{1−x}(a, ½) = (1 − x)ᵃ / (a B(a, ½) √x) · ₂F₁ at w = (1 − x)/x. All terms are positive: nothing cancels,
    however large a is.
    """
    denominator, ratio, inverse = 1.0, 1.0, 0.0
    n = 0
    while True:
        for coefficient in (
            (n + 0.5) * (a + n) / ((a + 2 * n) * (a + 2 * n + 1)),
            (n + 1) * (a + n + 0.5) / ((a + 2 * n + 1) * (a + 2 * n + 2)),
        ):
            inverse = 1 / (1 + coefficient * w * inverse)
            ratio = 1 + coefficient * w / ratio
            denominator *= ratio * inverse
        if abs(ratio * inverse - 1) < 4 * _CONVERGED:
            return 1 / denominator
        n += 1
