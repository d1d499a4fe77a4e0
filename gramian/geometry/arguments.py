"""What the closed forms and the bounds refuse to compute with."""

from gramian.errors import GeometryError

LARGEST_DIM = 2**53  # beyond, integers are no longer exact as floats


def require_dim(dim: int) -> None:
    """Refuse what is no dimension, or one too large to be exact."""
    if not 1 <= dim <= LARGEST_DIM:
        raise GeometryError(f"a dimension lies between 1 and 2^53; it is {dim}")


def require_cosine(epsilon: float) -> None:
    """Refuse what is no cosine."""
    if not -1 <= epsilon <= 1:
        raise GeometryError(f"epsilon is a cosine, between -1 and 1; it is {epsilon}")


def require_lines(dim: int, epsilon: float) -> None:
    """Refuse what lines in R^d cannot have: less than one dimension, a |cos| outside of 0 to 1."""
    if dim < 1 or not 0 <= epsilon <= 1:
        raise GeometryError(f"a dimension is at least 1 and |cos| lies between 0 and 1; they are {dim} and {epsilon}")
