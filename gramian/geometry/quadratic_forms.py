"""Lines that are known to exist because they can be written down: ±1 vectors from sets of quadratic forms.

Let N be a set of alternating bilinear forms on GF(2)^m in which the difference of any two has rank 2h at least. For
every form take the 2^m quadratic forms Q that belong to it, up to a constant, and the vectors 2^{−m/2} (−1)^{Q(x)} over
all x in GF(2)^m. Two of them have cosine 0 or ±2^{−r/2} with r the rank of the difference of their forms, hence
|cos| ≤ 2^{−h}. With

    n = ⌊m/2⌋,   c = 2^m (m odd) or 2^{m−1} (m even),   |N| = c^{n−h+1}

the largest possible sets N are known for every m and h. h = n gives Gold's sequences for odd m and Kerdock's for even,
smaller h those of Delsarte and Goethals and of dual BCH codes. Zeros appended, the vectors lie in any R^d with d ≥ 2^m;
the d coordinate axes can be added, since their cosine with each of them is 2^{−m/2} or 0:

    k = d + 2^m c^{n−h+1}   lines of R^d with |cos| ≤ 2^{−h} ≤ ε

At d = 4^j this is d²/2 + d lines at 1/√d, as many as Levenshtein's bound for lines allows. `math` only.

Sources: P. Delsarte, J. M. Goethals, J. Combin. Theory A 19 (1975); A. M. Kerdock, Inform. and Control 20 (1972);
R. Gold, IEEE Trans. Inform. Theory 13 (1967); A. R. Calderbank, P. J. Cameron, W. M. Kantor, J. J. Seidel, Proc. London
Math. Soc. 75 (1997), for the axes.
"""

import math
from dataclasses import dataclass

from gramian.geometry.arguments import require_lines


@dataclass(frozen=True)
class QuadraticForms:
    """One set of lines: |cos| is at most 2^{−h} between 2^m c^{terms} vectors of length 2^m.

    Attributes
    ----------
    m : int
        The vectors live in R^{2^m}.
    h : int
        Half the least rank: |cos| ≤ 2^{−h}.
    terms : int
        n − h + 1. For odd m the forms are Tr(a_1 x³ + a_2 x⁵ + … ), with so many coefficients a_i in GF(2^m).
    """

    m: int
    h: int

    @property
    def terms(self) -> int:
        return self.m // 2 - self.h + 1

    @property
    def coherence(self) -> float:
        return 2.0**-self.h

    @property
    def lines(self) -> int:
        bits = self.m if self.m % 2 else self.m - 1
        return 1 << self.m + bits * self.terms


def best_quadratic_forms(dim: int, epsilon: float) -> QuadraticForms | None:
    """The set with most lines among those that fit into d dimensions and keep |cos| ≤ ε; None where there is none.

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
    >>> best_quadratic_forms(4096, 0.0645), math.log2(best_quadratic_forms(4096, 0.0645).lines)
    (QuadraticForms(m=12, h=4), 45.0)
    >>> best_quadratic_forms(16, 0.25).lines  # the Nordstrom–Robinson code, up to sign
    128
    """
    require_lines(dim, epsilon)
    if epsilon == 0:
        return None
    h = max(1, -math.floor(math.log2(epsilon)))
    while 2.0**-h > epsilon:  # log2 may have been rounded up
        h += 1
    fitting = [QuadraticForms(m, h) for m in range(2, dim.bit_length()) if h <= m // 2]
    return max(fitting, key=lambda forms: forms.lines, default=None)


def constructed_lines(dim: int, epsilon: float) -> int:
    """How many lines with |cos| ≤ ε can be written down in R^d: the best set of forms and the d axes.

    Examples
    --------
    >>> constructed_lines(16, 0.25), constructed_lines(16, 0.2)
    (144, 16)
    """
    forms = best_quadratic_forms(dim, epsilon)
    return dim + (forms.lines if forms else 0)
