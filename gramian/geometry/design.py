"""Design: the dimension that a wanted number of directions needs, in hardware's multiples, and what then is there.

`math` only. See `forms` for the relation, `bounds` for what is proven at the same (d, ε).
"""

import math
from dataclasses import dataclass

from gramian.errors import GeometryError
from gramian.geometry.arguments import LARGEST_DIM
from gramian.geometry.bounds import Brackets, brackets
from gramian.geometry.forms import Form, floored_log
from gramian.geometry.inverses import dimension_for


@dataclass(frozen=True)
class Design:
    """A dimension for a target.

    Attributes
    ----------
    smallest_dim : int
        The smallest dimension whose form offers the directions.
    dim : int
        The next multiple, which one would build.
    multiple : int
        Of what.
    log10_directions : float
        Offered by the form at `dim`, not below log₁₀ d.
    spare_log10 : float
        By how many orders of magnitude that exceeds the target.
    brackets : Brackets
        What is proven at `dim`.
    """

    smallest_dim: int
    dim: int
    multiple: int
    log10_directions: float
    spare_log10: float
    brackets: Brackets


def design_for(
    epsilon: float,
    directions: float | None = None,
    *,
    log10_directions: float | None = None,
    multiple: int = 64,
    form: Form = "fitted",
) -> Design:
    """The smallest dimension, rounded up to a multiple, that offers k directions at ε.

    Parameters
    ----------
    epsilon : float
        Accepted deviation from orthogonality, −1 ≤ ε ≤ 1.
    directions, log10_directions : float
        k ≥ 1, or its decimal logarithm: one of the two.
    multiple : int
        Round up to a multiple of this: 64 or 128 suit hardware, 1 leaves the dimension as it is.
    form : Form
        Which relation.

    Raises
    ------
    GeometryError
        For values out of range, and where 2⁵³ dimensions are too few.

    Examples
    --------
    >>> found = design_for(0.09, 1e8, multiple=128)
    >>> found.smallest_dim, found.dim
    (2514, 2560)
    """
    if not 1 <= multiple <= 2**20:
        raise GeometryError(f"a multiple lies between 1 and 2^20; it is {multiple}")
    smallest = dimension_for(epsilon, directions, log10_directions=log10_directions, form=form)
    dim = -(-smallest // multiple) * multiple
    if dim > LARGEST_DIM:
        raise GeometryError(f"the next multiple of {multiple} after {smallest} exceeds 2^53 dimensions")
    wanted = math.log10(directions) if directions is not None else log10_directions or 0.0
    offered = floored_log(dim, epsilon, form) / math.log(10)
    return Design(
        smallest_dim=smallest,
        dim=dim,
        multiple=multiple,
        log10_directions=offered,
        spare_log10=max(offered - wanted, 0.0),
        brackets=brackets(dim, epsilon),
    )
