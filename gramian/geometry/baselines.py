"""What a measured overlap is compared with: isotropic random rows, and the least overlap that can be.

Closed forms in n rows (vectors) and d columns (dimensions); `math` only.

Sources: L. Welch, IEEE Trans. Inform. Theory 20 (1974); A. Guha, arXiv:2606.02765, §2.
"""

from math import sqrt

from gramian.errors import GeometryError


def welch_floor(rows: int, dim: int) -> float:
    """The least mean squared cosine of n vectors in d dimensions, (n − d) / d(n − 1), or 0 where n ≤ d.

    Reached by tight frames of unit vectors; a measured mean square below it is an error of the measurement.

    Examples
    --------
    >>> welch_floor(3, 2), welch_floor(2, 2)
    (0.25, 0.0)
    """
    _require_positive(rows, dim)
    return (rows - dim) / (dim * (rows - 1)) if rows > dim else 0.0


def welch_bound(rows: int, dim: int) -> float:
    """The least possible largest |cosine| among n vectors in d dimensions: √ of the Welch floor.

    Examples
    --------
    >>> welch_bound(3, 2)
    0.5
    """
    return sqrt(welch_floor(rows, dim))


def random_epsilon(dim: int) -> float:
    """ε = μ + 2σ of isotropic Gaussian rows, 2/√d: μ is 0 and the cosine of two of them has variance 1/d.

    Examples
    --------
    >>> random_epsilon(400)
    0.1
    """
    _require_positive(1, dim)
    return 2 / sqrt(dim)


def _require_positive(rows: int, dim: int) -> None:
    if rows < 1 or dim < 1:
        raise GeometryError(f"a matrix has at least one row and one column, not {rows} × {dim}")
