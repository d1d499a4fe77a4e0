"""The spectrum of the unit rows' Gram matrix: over how many dimensions the directions are really spread.

The eigenvalues λ_1 ≥ … ≥ λ_d ≥ 0 of UᵀU add up to n, the number of rows; n/d each is perfect isotropy.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GeometryError


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of a Gram matrix and the numbers that sum them up.

    Attributes
    ----------
    eigenvalues : (d,) float64 tensor
        Descending.
    effective_rank : float
        Participation ratio (Σλ)² / Σλ².
    entropy_rank : float
        exp(−Σ p ln p) of the shares p = λ/Σλ (O. Roy and M. Vetterli, EUSIPCO 2007).
    stable_rank : float
        Σλ / λ_1. None of the three ranks exceeds d, and stable ≤ effective ≤ entropy rank.
    condition : float or None
        λ_1 / λ_d; None where λ_d is zero to working precision.
    isotropy : float
        Effective rank over d: 1 exactly when all eigenvalues are equal.
    """

    eigenvalues: Tensor
    effective_rank: float
    entropy_rank: float
    stable_rank: float
    condition: float | None
    isotropy: float


def spectrum(gram: Tensor) -> Spectrum:
    """Sum up the spectrum of a Gram matrix; O(d³).

    Parameters
    ----------
    gram : (d, d) tensor
        Symmetric and positive semi-definite, such as `similarity.gram_matrix`.

    Raises
    ------
    GeometryError
        Where it is zero.

    Examples
    --------
    >>> flat = spectrum(torch.eye(4))
    >>> flat.effective_rank, flat.stable_rank, flat.condition, flat.isotropy
    (4.0, 4.0, 1.0, 1.0)
    """
    values = torch.linalg.eigvalsh(gram.to(torch.float64)).flip(0).clamp(min=0)  # (d,)
    total, largest, smallest = float(values.sum()), float(values[0]), float(values[-1])
    if total == 0:
        raise GeometryError("a zero Gram matrix has no spectrum to speak of")
    shares = values / total
    effective = 1 / float(shares.square().sum())
    return Spectrum(
        eigenvalues=values,
        effective_rank=effective,
        entropy_rank=float(torch.special.entr(shares).sum().exp()),
        stable_rank=total / largest,
        condition=largest / smallest if smallest > largest * len(values) * torch.finfo(torch.float64).eps else None,
        isotropy=effective / len(values),
    )


def effective_rank(rows: int, mean_square: float) -> float:
    """Participation ratio n² / ‖UᵀU‖_F² from the mean squared cosine alone: n / (1 + (n − 1) m₂).

    Examples
    --------
    >>> effective_rank(5, 0.0), effective_rank(5, 1.0)
    (5.0, 1.0)
    """
    return rows / (1 + (rows - 1) * mean_square)
