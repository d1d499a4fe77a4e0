"""Rigorous brackets: how many lines with |cos| ≤ ε certainly exist in d dimensions, and how many certainly do not.

Beside every published estimate stand, as decimal logarithms,

    random        √(2 ln 2 / p)        so many random lines have an even chance that no pair exceeds ε
    greedy        1 / p                so many exist (Gilbert–Varshamov), p = P(|cos| > ε) for two random lines
    constructed   d + 2^m c^{n−h+1}    so many can be written down: ±1 vectors of quadratic forms, and the axes
    exists        the larger of greedy and constructed, in which an orthonormal basis is contained
    upper         L(d, ε) / 2          more do not exist: Levenshtein's bound for spherical codes
    upper_lines                        more do not exist either: his bound for lines themselves, sharper for most ε

Each has a module of its own, with derivation and sources: `random_lines`, `quadratic_forms`, `levenshtein`. A call
takes a tenth of a millisecond as a rule, and some 30 ms at most.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gramian.errors import GeometryError
from gramian.geometry.levenshtein import LARGEST_DEGREE, upper_bounds
from gramian.geometry.quadratic_forms import QuadraticForms, best_quadratic_forms, constructed_lines
from gramian.geometry.random_lines import greedy_log10, random_log10

ExistsBy = Literal["basis", "greedy", "constructed"]
UpperBy = Literal["orthogonal", "levenshtein", "next_degree", "caps", "unbounded"]
Place = Literal["below_random", "below_existing", "open", "above_upper", "unbounded"]


@dataclass(frozen=True)
class Brackets:
    """What is proven about the largest number of lines with |cos| ≤ ε in R^d; log₁₀ throughout.

    Attributes
    ----------
    dim, epsilon : int, float
        d, and ε as it was used: between 0 and 1.
    random_log10, greedy_log10, constructed_log10 : float
        As in the module's head. Random and greedy are infinite at ε = 1, save in one dimension: any lines will do.
    exists_log10 : float
        The largest number that certainly exists, d at least.
    exists_by : "basis", "greedy" or "constructed"
        Which it is; `basis` where no more than the d axes can be shown.
    upper_log10 : float
        No more than this exists; infinite at ε = 1.
    upper_lines_log10 : float
        The sharper bound for lines; never above the former.
    upper_by : "orthogonal", "levenshtein", "next_degree", "caps" or "unbounded"
        See `levenshtein.UpperBounds.method`.
    forms : QuadraticForms or None
        The set that `constructed` counts beside the axes.
    """

    dim: int
    epsilon: float
    random_log10: float
    greedy_log10: float
    constructed_log10: float
    exists_log10: float
    exists_by: ExistsBy
    upper_log10: float
    upper_lines_log10: float
    upper_by: UpperBy
    forms: QuadraticForms | None


@lru_cache(maxsize=1024)
def brackets(dim: int, epsilon: float, *, largest_degree: int = LARGEST_DEGREE) -> Brackets:
    """All brackets at (d, ε).

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        Largest |cos|. Below 0 it is taken as 0, where exactly d lines exist; above 1, which a measured μ + 2σ may be,
        as 1.
    largest_degree : int
        See `levenshtein.upper_bounds`.

    Raises
    ------
    GeometryError
        For a dimension below 1 or an ε that is not a number.

    Examples
    --------
    >>> found = brackets(4096, 0.0645)
    >>> [round(x, 3) for x in (found.random_log10, found.greedy_log10, found.constructed_log10, found.upper_log10)]
    [2.293, 4.443, 13.546, 24.106]
    >>> found.exists_by, found.forms
    ('constructed', QuadraticForms(m=12, h=4))
    """
    if dim < 1 or math.isnan(epsilon):
        raise GeometryError(f"a dimension is at least 1 and ε is a number; they are {dim} and {epsilon}")
    epsilon = min(max(float(epsilon), 0.0), 1.0)
    greedy, constructed = greedy_log10(dim, epsilon), math.log10(constructed_lines(dim, epsilon))
    upper = upper_bounds(dim, epsilon, largest_degree=largest_degree)
    forms = best_quadratic_forms(dim, epsilon)
    by: ExistsBy = "greedy" if greedy > constructed else "constructed" if forms else "basis"
    return Brackets(
        dim=dim,
        epsilon=epsilon,
        random_log10=random_log10(dim, epsilon),
        greedy_log10=greedy,
        constructed_log10=constructed,
        exists_log10=max(greedy, constructed),
        exists_by=by,
        upper_log10=upper.sphere_log10,
        upper_lines_log10=upper.lines_log10,
        upper_by=upper.method,
        forms=forms,
    )


@dataclass(frozen=True)
class Position:
    """Where a number of directions lies among the brackets, as a code and in words."""

    place: Place
    words: str


def position(log10_directions: float, found: Brackets) -> Position:
    """Say where an estimate lies between what certainly exists and what certainly does not.

    Parameters
    ----------
    log10_directions : float
        The estimate's log₁₀ k.
    found : Brackets
        At the same dimension and ε.

    Examples
    --------
    >>> print(position(7.6, brackets(4096, 0.0645)).words)
    below a number that certainly exists: 10^7.6 directions, where an explicit code has 10^13.5 at this ε
    """
    said = f"10^{log10_directions:.3g} directions"
    if math.isinf(found.upper_lines_log10):
        return Position("unbounded", f"{said}, where ε = 1 admits any number of them")
    if log10_directions < found.exists_log10 - _SAME:
        existing = f"{_EXISTING[found.exists_by]} has 10^{found.exists_log10:.3g} at this ε"
        if log10_directions < found.random_log10 - _SAME:
            return Position(
                "below_random",
                f"below what random directions reach: {said}, where 10^{found.random_log10:.3g} drawn at random do as "
                f"well in every second draw, and {existing}",
            )
        return Position("below_existing", f"below a number that certainly exists: {said}, where {existing}")
    if log10_directions > found.upper_lines_log10 + _SAME:
        return Position(
            "above_upper",
            f"impossible: {said}, where at most 10^{found.upper_lines_log10:.3g} exist at this ε",
        )
    return Position(
        "open",
        f"neither proven nor excluded: {said}, between 10^{found.exists_log10:.3g} that certainly exist and "
        f"10^{found.upper_lines_log10:.3g} that none exceeds",
    )


_SAME = 1e-9  # of a decimal logarithm: the estimate was lifted to d, or the brackets meet
_EXISTING = {"basis": "an orthonormal basis", "greedy": "the greedy choice", "constructed": "an explicit code"}
