"""How strongly a number of directions answers to ε and to the dimension: elasticities, and the curve around a point.

An elasticity of 9 says that one per cent more ε gives nine per cent more directions. With u = (ε² dᶜ / C)^{1/b}, so
that ln k = (ln P + u)/a (see `forms`):

    ∂ ln k / ∂ ln ε = 2u/(ab)              ∂ ln k / ∂ ln d = (1 + cu/b)/a,   without the 1 where P = 1

`math` only. Source: A. Guha, arXiv:2606.02765, §3, for the forms.
"""

import math
from dataclasses import dataclass
from typing import Literal

from gramian.errors import GeometryError
from gramian.geometry.arguments import LARGEST_DIM
from gramian.geometry.forms import FORMS, Form, exponent, floored_log, log_directions

Axis = Literal["epsilon", "dim"]

MOST_POINTS = 1000


@dataclass(frozen=True)
class SensitivityPoint:
    """One point of the curve.

    Attributes
    ----------
    dim, epsilon : int, float
        Where.
    log10_directions : float
        log₁₀ k by the form, not below log₁₀ d.
    epsilon_elasticity, dim_elasticity : float
        ∂ ln k / ∂ ln ε and ∂ ln k / ∂ ln d; where the form lies below d, those of d itself: 0 and 1.
    """

    dim: int
    epsilon: float
    log10_directions: float
    epsilon_elasticity: float
    dim_elasticity: float


def sensitivity_at(dim: int, epsilon: float, form: Form = "fitted") -> SensitivityPoint:
    """Directions and elasticities at one (d, ε).

    Examples
    --------
    >>> at = sensitivity_at(4096, 0.05)
    >>> round(at.epsilon_elasticity, 1), round(at.dim_elasticity, 1)
    (9.4, 5.5)
    """
    f, u = FORMS[form], exponent(dim, epsilon, form)
    floored = log_directions(dim, epsilon, form) < math.log(dim)
    return SensitivityPoint(
        dim=dim,
        epsilon=epsilon,
        log10_directions=floored_log(dim, epsilon, form) / math.log(10),
        epsilon_elasticity=0.0 if floored else 2 * u / (f.a * f.b),
        dim_elasticity=1.0 if floored else (f.per_dimension + f.c * u / f.b) / f.a,
    )


def sensitivity_curve(
    dim: int,
    epsilon: float,
    *,
    over: Axis = "epsilon",
    start: float | None = None,
    stop: float | None = None,
    points: int = 101,
    form: Form = "fitted",
) -> tuple[SensitivityPoint, ...]:
    """The number of directions as ε, or d, runs over a range while the other stays.

    ε runs in even steps, d in even ratios, rounded to integers, of which equal ones are listed once.

    Parameters
    ----------
    dim, epsilon : int, float
        The point whose neighbourhood is wanted.
    over : "epsilon" or "dim"
        What runs.
    start, stop : float, optional
        Its range; half to twice the point's own value where not given.
    points : int
        2 to 1000.
    form : Form
        Which relation.

    Raises
    ------
    GeometryError
        For values or ranges out of bounds.

    Examples
    --------
    >>> [point.dim for point in sensitivity_curve(512, 0.05, over="dim", points=3)]
    [256, 512, 1024]
    >>> [round(point.epsilon, 3) for point in sensitivity_curve(512, 0.05, points=3)]
    [0.025, 0.062, 0.1]
    """
    centre, most = (epsilon, 1.0) if over == "epsilon" else (float(dim), float(LARGEST_DIM))
    start = centre / 2 if start is None else start
    stop = min(centre * 2, most) if stop is None else stop
    if not 2 <= points <= MOST_POINTS:
        raise GeometryError(f"a curve has 2 to {MOST_POINTS} points, not {points}")
    if not start < stop < math.inf:
        raise GeometryError(
            f"the range of {over} runs from {start:g} to {stop:g}", hint="give a `start` below a finite `stop`"
        )
    shares = [i / (points - 1) for i in range(points)]
    if over == "epsilon":
        return tuple(sensitivity_at(dim, start + (stop - start) * share, form) for share in shares)
    start = max(start, 1.0)
    dims = sorted({round(start * (stop / start) ** share) for share in shares})
    return tuple(sensitivity_at(each, epsilon, form) for each in dims)
