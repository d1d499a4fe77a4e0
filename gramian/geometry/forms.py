"""The published forms: how many directions a d-dimensional space offers within ε of orthogonality.

Four forms of one relation between the number of directions k, the dimension d and ε,

    ln k = (ln P + (ε² dᶜ / C)^{1/b}) / a        ⇔        ε = √(C · (a ln k − ln P)ᵇ / dᶜ)

with P = d or 1. The headline form, `fitted`, was fitted to packings that gradient descent found for 166 pairs
(k, d). What it says is therefore **reachable by descent (published fit)**, extrapolated to real models; it is not an
upper bound of geometry: explicit constructions hold more directions at the same ε for nearly every published model.

Equation (7) as printed in the paper applies the outer 1/a to the exponential alone, k = d · (exp …)^{1/a}. The
published code, and all 31 finite rows of the paper's Table 1 (within 0.46 %), apply it to the whole product, as
above.

Everything is computed with logarithms, so that nothing overflows. This module needs `math` only.

Symbols: k directions, d dimensions (the paper's code calls them n), ε the accepted deviation from orthogonality.

Source: A. Guha, Representational Capacity, arXiv:2606.02765, §3, and its code, Alex-Guha/representational-capacity.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from gramian.geometry.arguments import require_cosine, require_dim

Form = Literal["fitted", "ratio", "jl_random", "jl_proven"]


@dataclass(frozen=True)
class FormConstants:
    """The constants of one form; `per_dimension` tells whether P is d or 1."""

    C: float
    a: float = 1.0
    b: float = 1.0
    c: float = 1.0
    per_dimension: bool = True


FORMS: Mapping[Form, FormConstants] = MappingProxyType(
    {
        # Four parameters, fitted to all 166 optimised packings (arXiv:2606.02765, eq. 7).
        "fitted": FormConstants(C=0.45809143, a=1.0668005, b=1.44738666, c=0.97197234),
        # One parameter, fitted to the same packings, in k/d in place of k.
        "ratio": FormConstants(C=1.2934008),
        # Johnson–Lindenstrauss, its constant fitted to the best of 1000 random draws.
        "jl_random": FormConstants(C=3.029, per_dimension=False),
        # Johnson–Lindenstrauss, with the constant of the proof.
        "jl_proven": FormConstants(C=8.0, per_dimension=False),
    }
)


def log_directions(dim: int, epsilon: float, form: Form = "fitted") -> float:
    """ln k, as the form has it.

    Below ε = 0 the formula, which sees ε², is held at its value at 0. It may fall below ln d, though d exactly
    orthogonal directions always exist: `capacity` lifts it to that floor and says so.

    Parameters
    ----------
    dim : int
        Dimension d ≥ 1.
    epsilon : float
        Accepted deviation from orthogonality, a cosine: −1 ≤ ε ≤ 1.
    form : Form
        Which relation.

    Raises
    ------
    GeometryError
        For a dimension or ε out of range.

    Examples
    --------
    >>> f"{math.exp(log_directions(4096, 0.0645)):.3g}"
    '3.99e+07'
    >>> f"{math.exp(log_directions(4096, 0.0645, 'jl_proven')):.2g}"
    '8.4'
    """
    f, u = FORMS[form], exponent(dim, epsilon, form)
    return (log_prefactor(dim, f) + u) / f.a


def log10_directions(dim: int, epsilon: float, form: Form = "fitted") -> float:
    """log₁₀ k, as the form has it; see `log_directions`.

    Examples
    --------
    >>> round(log10_directions(16384, 1.0), 1)
    476.1
    """
    return log_directions(dim, epsilon, form) / math.log(10)


def floored_log(dim: int, epsilon: float, form: Form = "fitted") -> float:
    """ln k, or ln d where the form falls below the d orthogonal directions that exist in any case."""
    return max(log_directions(dim, epsilon, form), math.log(dim))


def exponent(dim: int, epsilon: float, form: Form = "fitted") -> float:
    """(ε² dᶜ / C)^{1/b}, the term of the relation that ε drives; 0 from ε = 0 down.

    Examples
    --------
    >>> round(exponent(800, 0.1, "jl_proven"), 12)
    1.0
    """
    require_dim(dim)
    require_cosine(epsilon)
    f = FORMS[form]
    return math.pow(max(epsilon, 0.0) ** 2 * math.pow(dim, f.c) / f.C, 1 / f.b)


def log_prefactor(dim: int, form: FormConstants) -> float:
    """ln P."""
    return math.log(dim) if form.per_dimension else 0.0
