"""Welch's bounds of every order: weaker than Levenshtein's, found in a few lines, and so a check on them.

`math` only. Source: L. Welch, IEEE Trans. Inform. Theory 20 (1974).
"""

import math

from gramian.errors import GeometryError
from gramian.geometry.arguments import require_lines
from gramian.geometry.gamma_ratios import log_binomial


def welch_log10(dim: int, epsilon: float, order: int) -> float:
    """log₁₀ of the most lines with |cos| ≤ ε that the bound of one order allows; infinite where it says nothing.

    The r-fold tensor powers of k unit vectors span at most B = C(d + r − 1, r) dimensions, and the Welch bound of
    their overlaps, at most ε^{2r} squared, is

        k ≤ B (1 − ε^{2r}) / (1 − B ε^{2r})        where B ε^{2r} < 1

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        Cosine, 0 ≤ ε ≤ 1.
    order : int
        r ≥ 1; 1 is the bound that equiangular tight frames reach.

    Raises
    ------
    GeometryError
        For values out of range.

    Examples
    --------
    >>> round(10 ** welch_log10(23, 0.2, 1))
    276
    >>> welch_log10(23, 0.3, 1)
    inf
    """
    require_lines(dim, epsilon)
    if order < 1:
        raise GeometryError(f"Welch's bounds have an order of at least 1, not {order}")
    log_b = log_binomial(dim + order - 1, order)
    if epsilon == 0:
        return log_b / math.log(10)
    log_power = 2 * order * math.log(epsilon)
    if log_b + log_power >= 0:
        return math.inf
    log_k = log_b + math.log1p(-math.exp(log_power)) - math.log1p(-math.exp(log_b + log_power))
    return log_k / math.log(10)
