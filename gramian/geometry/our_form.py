"""Our own estimate of the directions that descent reaches, beside the published one.

    ε² = (k−d) / (d(k−1))  +  A · (1 + B/d) · ln(k/d)² / d

starts from the Welch bound, and says that what descent leaves above it grows with the square of ln(k/d). A and B are
fitted to the packings of docs/packings.md, which are 7 to 34 % closer than the published ones: 14 of 2,000 and 4,000
vectors in 32 to 1,024 dimensions, described within 1.3 %. It must fail at large k/d, where even a greedy choice of
random lines achieves more.

With L = ln(k/d) the first term is (1 − e^−L) / (d − e^−L), so that no k overflows.
"""

from math import exp, log, log10, sqrt
from typing import NamedTuple

from gramian.geometry.arguments import require_cosine, require_dim

# Of the form `welch` in docs/packings.md; a test fits them to the committed cells again.
A, B = 0.1491333, 6.028091
COVARIANCE = ((1.298734e-05, -0.003595258), (-0.003595258, 1.085188))

_PRECISION = 1e-12  # of L, relative


class OurEstimate(NamedTuple):
    """log₁₀ of the directions, and its standard error from A and B alone."""

    log10_directions: float
    log10_se: float


def our_estimate(dim: int, epsilon: float) -> OurEstimate:
    """The directions that descent reaches at ε by our form; d exactly orthogonal ones exist in any case.

    Parameters
    ----------
    dim : int
        d, at least 1.
    epsilon : float
        ε, from −1 to 1.

    Raises
    ------
    GeometryError
        For a d or an ε outside of that.

    Examples
    --------
    >>> found = our_estimate(4096, 0.0645)
    >>> round(found.log10_directions, 2), round(found.log10_se, 2)
    (8.11, 0.05)
    """
    require_dim(dim)
    require_cosine(epsilon)
    if dim == 1 or epsilon <= 0:  # lines of one dimension are one; at ε = 0 there is a basis
        return OurEstimate(log10(dim), 0.0)
    scale = A * (1 + B / dim) / dim
    low, high = 0.0, epsilon / sqrt(scale)  # there the second term alone is ε²
    while high - low > _PRECISION * max(high, 1.0):
        middle = (low + high) / 2
        if _square(middle, dim, scale) <= epsilon**2:
            low = middle
        else:
            high = middle
    return OurEstimate((low + log(dim)) / log(10), _error(low, dim, scale) / log(10))


def _square(L: float, dim: int, scale: float) -> float:
    rest = exp(-L)
    return (1 - rest) / (dim - rest) + scale * L * L


def _error(L: float, dim: int, scale: float) -> float:
    """Standard error of L: moving a constant moves L along the curve on which ε stays."""
    rest = exp(-L)
    slope = rest * (dim - 1) / (dim - rest) ** 2 + 2 * scale * L  # of ε² in L
    by_A, by_B = (1 + B / dim) * L * L / dim, A * L * L / dim**2
    (aa, ab), (_, bb) = COVARIANCE
    return sqrt(max(by_A**2 * aa + 2 * by_A * by_B * ab + by_B**2 * bb, 0.0)) / slope
