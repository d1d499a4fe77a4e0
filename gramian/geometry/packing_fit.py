"""Fit a relation between k, d and ε* to packings, and say how well it holds.

    jl        ε = √(C · ln k / d)
    ratio     ε = √(C · ln(k/d) / d)                      0 where k ≤ d
    fitted    ε = √(C · ln(kᵃ/d)ᵇ / dᶜ)                   0 where k ≤ d
    welch     ε = √(w² + A · (1 + B/d) · ln(k/d)² / d)     0 where k ≤ d

The first three are the published ones (those of `capacity`); at k ≤ d, where an orthonormal basis has ε = 0, the
published fits of `ratio` and `fitted` predict 0 as well, so that those points count in their errors and not in their
constants.

`welch` is this project's own, found on the packings of docs/packings.md. w² = (k−d)/(d(k−1)) is the Welch bound, which
no packing passes; what descent leaves above it grows with the square of ln(k/d), and B is a correction for small d. It
describes 2 ≤ k/d ≤ 125 there. It cannot hold for ever: its capacity grows like exp(ε√(d/A)) only, and somewhere
beyond ln(k/d) = 2/A a greedy choice of random lines does better (ε² ≈ 2 ln k / d).

A plain fit minimises Σ r², r = predicted − measured ε. A robust one minimises s²·Σ 2(√(1 + (r/s)²) − 1), which is
quadratic for residuals within s and linear beyond, with s = 1.4826 · median |r| of the plain fit.

NumPy and SciPy only, no torch.

Source: A. Guha, arXiv:2606.02765, §3.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log10, sqrt
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GeometryError
from gramian.geometry.capacity import FORMS

Vector = NDArray[np.float64]
PackingForm = Literal["jl", "ratio", "fitted", "welch"]

MAD_TO_SIGMA = 1.4826  # of a normal distribution
MOST_EVALUATIONS = 2000


class _Relation(NamedTuple):
    """ε as a function of the constants, k and d; where to start from; which constants may be negative."""

    epsilon: Callable[[Vector, Vector, Vector], Vector]
    start: Mapping[str, float]
    signed: frozenset[str] = frozenset()


def _jl(constants: Vector, k: Vector, d: Vector) -> Vector:
    (C,) = constants
    epsilon: Vector = np.sqrt(C * np.log(k) / d)
    return epsilon


def _ratio(constants: Vector, k: Vector, d: Vector) -> Vector:
    (C,) = constants
    return np.where(k > d, np.sqrt(C * np.log(np.maximum(k / d, 1)) / d), 0.0)


def _fitted(constants: Vector, k: Vector, d: Vector) -> Vector:
    C, a, b, c = constants
    excess = np.maximum(a * np.log(k) - np.log(d), 0.0)
    return np.where(k > d, np.sqrt(C * excess**b / d**c), 0.0)


def _welch(constants: Vector, k: Vector, d: Vector) -> Vector:
    A, B = constants
    above = np.maximum(k, d + 1)
    floor = (above - d) / (d * (above - 1))
    return np.where(k > d, np.sqrt(floor + A * np.maximum(1 + B / d, 0) * np.log(above / d) ** 2 / d), 0.0)


_published = FORMS["fitted"]
RELATIONS: Mapping[PackingForm, _Relation] = MappingProxyType(
    {
        "jl": _Relation(_jl, {"C": 1.0}),
        "ratio": _Relation(_ratio, {"C": 1.0}),
        "fitted": _Relation(_fitted, {"C": _published.C, "a": _published.a, "b": _published.b, "c": _published.c}),
        "welch": _Relation(_welch, {"A": 0.15, "B": 1.0}, signed=frozenset("B")),
    }
)


@dataclass(frozen=True)
class PackingFit:
    """One relation fitted to packings.

    Attributes
    ----------
    form : PackingForm
        Which relation.
    constants, standard_errors : mapping of name to float
        What was fitted; errors are √ of the covariance's diagonal.
    covariance : tuple of tuples
        Of the constants, in their order: s²(JᵀJ)⁻¹ with s² = Σr²/(n − p); for a robust fit Huber's form of it.
    r2 : float
        1 − Σr²/Σ(ε − mean ε)²; None where all ε are equal.
    mape : float or None
        Mean of |r|/ε in per cent; None where an ε is 0.
    rmse, nrmse : float
        √(Σr²/n), and as a share of max ε − min ε (None where that is 0).
    residuals : tuple of float
        r, in the order of the points that were used.
    points : int
        How many packings it rests on.
    robust : bool
        Which of the two fits.
    """

    form: PackingForm
    constants: Mapping[str, float]
    standard_errors: Mapping[str, float]
    covariance: tuple[tuple[float, ...], ...]
    r2: float | None
    mape: float | None
    rmse: float
    nrmse: float | None
    residuals: tuple[float, ...]
    points: int
    robust: bool

    def epsilon(self, vectors: float, dim: float) -> float:
        """ε* as the fitted relation has it."""
        return packing_epsilon(self.form, self.constants, vectors, dim)


def packing_epsilon(form: PackingForm, constants: Mapping[str, float], vectors: float, dim: float) -> float:
    """ε* of k vectors in d dimensions by a relation with the constants given.

    Examples
    --------
    >>> round(packing_epsilon("ratio", {"C": 1.2934}, 2000, 128), 4)
    0.1667
    """
    relation = RELATIONS[form]
    values = np.array([constants[name] for name in relation.start])
    return float(relation.epsilon(values, np.array([float(vectors)]), np.array([float(dim)]))[0])


def log10_vectors(form: PackingForm, constants: Mapping[str, float], dim: float, epsilon: float) -> float:
    """log₁₀ of the most vectors whose ε* is not above ε by a relation: the relation turned round, d at least.

    Examples
    --------
    >>> round(log10_vectors("ratio", {"C": 1.2934008}, 4096, 0.0645), 3)  # 2.16e9, as in `capacity`
    9.334
    """
    too_few, too_many = log10(dim), 300.0
    while too_many - too_few > 1e-9:
        middle = (too_few + too_many) / 2
        if packing_epsilon(form, constants, 10**middle, dim) <= epsilon:
            too_few = middle
        else:
            too_many = middle
    return too_few


def fit_packing(
    points: Sequence[tuple[float, float, float]],
    form: PackingForm,
    *,
    robust: bool = False,
    exclude_k_up_to_d: bool = False,
) -> PackingFit:
    """Fit one relation to packings (k, d, ε).

    Parameters
    ----------
    points : sequence of (k, d, ε)
        Packings; a `PackingPoint` is one. At least one more than the relation has constants.
    form : PackingForm
        Which relation.
    robust : bool
        Give outliers less weight.
    exclude_k_up_to_d : bool
        Leave out packings of no more vectors than dimensions, whose true ε is 0.

    Raises
    ------
    GeometryError
        For too few points, impossible ones, and points that do not determine the constants.

    Examples
    --------
    >>> from gramian.geometry.published_packings import OPTIMISED
    >>> fit = fit_packing(OPTIMISED, "ratio")
    >>> round(fit.constants["C"], 4), round(fit.r2, 4), round(fit.mape, 1)
    (1.2934, 0.9984, 7.9)
    """
    relation = RELATIONS[form]
    k, d, epsilon = _columns(points, exclude_k_up_to_d=exclude_k_up_to_d)
    start = np.array(list(relation.start.values()))
    lowest = [-np.inf if name in relation.signed else 0.0 for name in relation.start]
    if len(k) <= len(start):
        raise GeometryError(
            f"form {form!r} has {len(start)} constants and needs more points than that; {len(k)} are left",
            hint="give more packings, of different k and d",
        )

    from scipy.optimize import least_squares  # noqa: PLC0415 - 50 MB, which a process that fits nothing need not hold

    def residuals(constants: Vector) -> Vector:
        return relation.epsilon(constants, k, d) - epsilon

    def solve(begin: Vector, scale: float | None) -> tuple[Vector, Vector]:
        found = least_squares(
            residuals,
            begin,
            jac="3-point",
            bounds=(lowest, np.inf),
            x_scale="jac",
            loss="linear" if scale is None else "soft_l1",
            f_scale=scale or 1.0,
            ftol=1e-14,
            xtol=1e-14,
            gtol=1e-14,
            max_nfev=MOST_EVALUATIONS,
        )
        return found.x, residuals(found.x)

    with np.errstate(all="ignore"):  # what is not finite is refused below
        if not np.isfinite(residuals(start)).all():
            raise _undetermined(form)
        constants, r = solve(start, None)
        scale = MAD_TO_SIGMA * float(np.median(np.abs(r)))
        robust_scale = scale if robust and scale > 0 else None  # nothing stands out of a perfect fit
        if robust_scale is not None:
            constants, r = solve(constants, robust_scale)
        covariance = _covariance(_jacobian(relation, constants, k, d), r, robust_scale, form)
    spread, width = float(((epsilon - epsilon.mean()) ** 2).sum()), float(np.ptp(epsilon))
    rmse = sqrt(float((r**2).mean()))
    return PackingFit(
        form=form,
        constants=_named(relation, constants),
        standard_errors=_named(relation, np.sqrt(np.diag(covariance))),
        covariance=tuple(tuple(float(entry) for entry in row) for row in covariance),
        r2=1 - float((r**2).sum()) / spread if spread else None,
        mape=100 * float((np.abs(r) / epsilon).mean()) if epsilon.all() else None,
        rmse=rmse,
        nrmse=rmse / width if width else None,
        residuals=tuple(r.tolist()),
        points=len(k),
        robust=robust,
    )


def _jacobian(relation: _Relation, constants: Vector, k: Vector, d: Vector) -> Vector:
    """∂ε/∂constant, (n, p), by central differences: the relations are smooth in their constants."""
    columns = []
    for index, value in enumerate(constants):
        step = np.zeros_like(constants)
        step[index] = 6e-6 * max(abs(value), 1e-3)  # ∛ of the rounding error, where it balances truncation
        up, down = relation.epsilon(constants + step, k, d), relation.epsilon(constants - step, k, d)
        columns.append((up - down) / (2 * step[index]))
    return np.stack(columns, axis=1)


def _covariance(J: Vector, r: Vector, scale: float | None, form: PackingForm) -> Vector:
    n, p = J.shape
    norms = np.linalg.norm(J, axis=0)
    if not (np.isfinite(norms).all() and norms.all()) or np.linalg.cond(J / norms) > 1e10:
        raise _undetermined(form)
    if scale is None:
        variance = float((r**2).sum()) / (n - p)
    else:  # Huber, Robust Statistics (1981), §7.6: ψ is the derivative of the loss
        z = 1 + (r / scale) ** 2
        psi, slope = r / np.sqrt(z), z**-1.5
        variance = float((psi**2).sum()) / (n - p) / float(slope.mean()) ** 2
    J = J / norms  # so that columns of very different size do not spoil the inverse
    covariance: Vector = variance * np.linalg.inv(J.T @ J) / np.outer(norms, norms)
    if not np.isfinite(covariance).all() or (np.diag(covariance) < 0).any():
        raise _undetermined(form)
    return covariance


def _undetermined(form: PackingForm) -> GeometryError:
    return GeometryError(
        f"the points do not determine the {len(RELATIONS[form].start)} constants of form {form!r}",
        hint="give packings of more different k and d, with k > d",
    )


def _columns(points: Sequence[tuple[float, float, float]], *, exclude_k_up_to_d: bool) -> tuple[Vector, Vector, Vector]:
    table = np.array([tuple(point) for point in points], dtype=np.float64).reshape(len(points), 3)
    if not (np.isfinite(table).all() and (table[:, 0] >= 2).all() and (table[:, 1] >= 1).all()):
        raise GeometryError("a packing has at least 2 vectors and 1 dimension, all its numbers finite")
    if not ((table[:, 2] >= 0) & (table[:, 2] <= 1)).all():
        raise GeometryError("ε of a packing is a largest |cosine|, between 0 and 1")
    if exclude_k_up_to_d:
        table = table[table[:, 0] > table[:, 1]]
    return table[:, 0], table[:, 1], table[:, 2]


def _named(relation: _Relation, values: Vector) -> Mapping[str, float]:
    return MappingProxyType({name: float(value) for name, value in zip(relation.start, values, strict=True)})
