"""Ratios of gamma functions, exact to rounding where the functions themselves would drown their quotient.

ln Γ(2⁵³) is 3·10¹⁷, a double apart from its neighbours by 64; ln Γ(2⁵³ + ½) − ln Γ(2⁵³) is 18.4. `math` only.
"""

import math

_STIRLING_FROM = 64.0  # there the next term of the series below is under 1e-16


def log_gamma_ratio(x: float, step: float) -> float:
    """ln Γ(x + step) − ln Γ(x), for x > 0 and step ≥ 0.

    Stirling's series of the difference, in which the large terms have cancelled by algebra:

        (x − ½) ln(1 + step/x) + step (ln(x + step) − 1) + r(x + step) − r(x),   r(y) = 1/12y − 1/360y³ + 1/1260y⁵

    Examples
    --------
    >>> round(math.exp(log_gamma_ratio(5, 1)), 12)
    5.0
    >>> round(log_gamma_ratio(2.0**53, 0.5) - 0.5 * math.log(2.0**53), 12)
    0.0
    """
    if x < _STIRLING_FROM:
        return math.lgamma(x + step) - math.lgamma(x)
    return (
        (x - 0.5) * math.log1p(step / x)
        + step * (math.log(x + step) - 1)
        + _stirling_rest(x + step)
        - _stirling_rest(x)
    )


def log_binomial(n: int, k: int) -> float:
    """ln C(n, k), for 0 ≤ k ≤ n.

    Examples
    --------
    >>> round(math.exp(log_binomial(24, 2)))
    276
    """
    small = min(k, n - k)
    return log_gamma_ratio(n - small + 1, small) - math.lgamma(small + 1)


def _stirling_rest(y: float) -> float:
    square = y * y
    return (1 / 12 - (1 / 360 - 1 / (1260 * square)) / square) / y
