"""The forms turned round: the ε, or the dimension, that a number of directions needs.

By bisection or in closed form, in logarithms; `math` only. See `forms` for the relation.
"""

import math

from gramian.errors import GeometryError
from gramian.geometry.arguments import LARGEST_DIM, require_cosine, require_dim
from gramian.geometry.forms import FORMS, Form, floored_log, log_prefactor

SLACK = 1e-14  # of a logarithm: ln 1000 and 3 ln 10 are the same number of directions


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
    require_dim(dim)
    log_k = log_count(directions, log10_directions)
    if _reaches(math.log(dim), log_k):
        return 0.0
    f = FORMS[form]
    excess = max(f.a * log_k - log_prefactor(dim, f), 0.0)
    epsilon = math.sqrt(f.C * math.pow(excess, f.b) / math.pow(dim, f.c))
    if epsilon > 1 and _reaches(floored_log(dim, 1.0, form), log_k):
        return 1.0  # it was rounding that went beyond
    if epsilon > 1:
        most, wanted = floored_log(dim, 1.0, form) / math.log(10), log_k / math.log(10)
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
    require_cosine(epsilon)
    log_k = log_count(directions, log10_directions)

    def suffices(dim: int) -> bool:
        return _reaches(floored_log(dim, epsilon, form), log_k)  # rises with dim: both the form and the floor do

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


def log_count(directions: float | None, log10_directions: float | None) -> float:
    """ln k, from k or from its decimal logarithm, whichever was given."""
    if (directions is None) == (log10_directions is None):
        raise GeometryError("give the number of directions or its log10, one of the two")
    if log10_directions is not None:
        if not 0 <= log10_directions < math.inf:
            raise GeometryError(f"log10 of a number of directions is finite and not negative; it is {log10_directions}")
        return log10_directions * math.log(10)
    if directions is None or not 1 <= directions < math.inf:
        raise GeometryError(f"a number of directions is finite and at least 1; it is {directions}")
    return math.log(directions)


def _reaches(log_have: float, log_want: float) -> bool:
    return log_have >= log_want * (1 - SLACK)
