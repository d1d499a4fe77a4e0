"""Superposition of features in a matrix's rows: which are represented, how much of a dimension each owns, the regime.

Liu et al. write n features and m hidden dimensions; here those are the n rows and d columns of W, an output
embedding as a rule.

Sources: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §4; N. Elhage et al., Toy Models of Superposition (2022).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gramian.geometry.products import GramSum, QuadraticForm
from gramian.geometry.rows import CensusTaker, RowBlocks, unit_rows

# -- norms ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormStatistics:
    """Distribution of the row norms ‖W_i‖, in the units of the matrix; `std` is that of the population."""

    mean: float
    std: float
    min: float
    max: float
    median: float


def norm_statistics(norms: Tensor) -> NormStatistics:
    """Sum up the norms of the usable rows, (n,), n ≥ 1.

    Examples
    --------
    >>> norm_statistics(torch.tensor([1.0, 1.0, 4.0, 4.0]))
    NormStatistics(mean=2.5, std=1.5, min=1.0, max=4.0, median=2.5)
    """
    values = norms.to(torch.float64).cpu().numpy()
    unit = float(values.max()) or 1.0
    relative = values / unit  # squares of norms beyond 1e154 overflow
    return NormStatistics(
        mean=float(relative.mean()) * unit,
        std=float(relative.std()) * unit,
        min=float(values.min()),
        max=float(values.max()),
        median=_median(relative) * unit,
    )


def _median(values: npt.NDArray[np.float64]) -> float:
    # np.median imports numpy.ma, which takes a new process longer than the rest of the statistics.
    low, high = (len(values) - 1) // 2, len(values) // 2
    middle = np.partition(values, (low, high))[[low, high]]
    return float(middle.mean())


def represented_fraction(norms: Tensor, *, scale: float) -> float:
    """φ_½, the share of rows longer than half of `scale`.

    The toy model's represented features have norms near 1, so its scale is 1. A real head has a scale of its own:
    there, pass the median norm, and say so beside the number.

    Examples
    --------
    >>> represented_fraction(torch.tensor([1.0, 0.9, 0.1, 1.1]), scale=1.0)
    0.75
    """
    return float((norms > scale / 2).to(torch.float64).mean())


# -- feature dimensionality -----------------------------------------------------------------------------------


class WeightedGramSum:
    """The running sum F = Σ_j ‖W_j‖² u_j u_jᵀ, in units of the largest squared norm so far.

    Without the unit, rows of norm 1e30 would overflow and rows of norm 1e-30 vanish.
    """

    def __init__(self, dim: int) -> None:
        self._gram = GramSum(dim)
        self._largest = 0.0

    def add(self, unit: Tensor, norms: Tensor) -> None:
        """Take in the unit rows, (m, d), and norms, (m,) float64, of a chunk."""
        largest = max(self._largest, float(norms.max()) if len(norms) else 0.0)
        if largest > self._largest:
            self._gram.scale((self._largest / largest) ** 2)
            self._largest = largest
        self._gram.add(unit, (norms / largest).square().to(unit.dtype))

    def merge(self, other: "WeightedGramSum") -> None:
        """Add the sum over other rows, in units of the larger of both largest norms; the other is used up."""
        largest = max(self._largest, other._largest)
        if largest > 0:
            for gram, unit in ((self._gram, self._largest), (other._gram, other._largest)):
                gram.scale((unit / largest) ** 2)
        self._gram.merge(other._gram)
        self._largest = largest

    def dimensionality(self, products: torch.dtype) -> "FeatureDimensionality":
        """The second pass; call after the last chunk."""
        return FeatureDimensionality(QuadraticForm(self._gram.matrix(), products), self._largest)


@dataclass(frozen=True, eq=False)
class FeatureDimensionality:
    """D_i = ‖W_i‖² / Σ_j (Ŵ_i·W_j)² = ‖W_i‖² / u_iᵀFu_i for the rows of any chunk."""

    form: QuadraticForm
    largest_norm: float

    def __call__(self, unit: Tensor, norms: Tensor) -> Tensor:
        """D_i for unit rows, (m, d), in the precision of the products, and their norms, (m,): (m,) float64."""
        own = (norms / self.largest_norm).square()  # the term j = i, so that D_i ≤ 1
        total = torch.maximum(self.form(unit), own)
        return torch.where(own > 0, own / total, 0.0)  # 0/0 where a norm is 1e-162 of the largest


def feature_dimensionality(blocks: RowBlocks, *, dim: int, products: torch.dtype = torch.float32) -> Tensor:
    """The share of a dimension that each row has to itself, D_i = ‖W_i‖² / Σ_j (Ŵ_i·W_j)².

    1 for a row orthogonal to all others, ½ for each of an antipodal pair; the sum over all rows is at most d.

    Parameters
    ----------
    blocks : RowBlocks
        The matrix, (n, d), read twice.
    dim : int
        Number of columns d.
    products : torch.dtype
        Precision of the products within a chunk, float32 or float64.

    Returns
    -------
    (used,) float64 tensor
        For the usable rows, in their order.

    Examples
    --------
    >>> feature_dimensionality([torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])], dim=2).tolist()
    [1.0, 0.5, 0.5]
    """
    running, taker = WeightedGramSum(dim), CensusTaker()
    for rows in unit_rows(blocks, dim=dim, dtype=products):
        taker.add(rows)
        running.add(rows.unit, rows.norms)
    taker.census().require(1)
    dimensionality = running.dimensionality(products)
    return torch.cat([dimensionality(rows.unit, rows.norms) for rows in unit_rows(blocks, dim=dim, dtype=products)])


# -- regime ---------------------------------------------------------------------------------------------------

RegimeName = Literal["none", "strong", "weak", "intermediate"]

STRONG_REPRESENTED = 0.9  # φ at least: nearly every feature has a direction
STRONG_CROWDING = 2.0  # represented rows per dimension at least: φ ≫ d/n
STRONG_OVERLAP = 4.0  # d·m₂ at most: mean squared overlap near 1/d
WEAK_CROWDING = 1.5  # represented rows per dimension, or its inverse, at most: φ ≈ d/n


@dataclass(frozen=True)
class Regime:
    """A regime of superposition and the numbers it rests on.

    Attributes
    ----------
    name : RegimeName
        See `superposition_regime`.
    represented_fraction : float
        φ_½.
    dims_per_row : float
        d/n, the fraction that could be represented without any overlap.
    overlap_times_dim : float
        d·m₂, 1 for isotropic rows.
    """

    name: RegimeName
    represented_fraction: float
    dims_per_row: float
    overlap_times_dim: float


def superposition_regime(*, rows: int, dim: int, represented_fraction: float, mean_square: float) -> Regime:
    """Tell strong from weak superposition.

    ============  =====================================================================================
    none          n ≤ d: nothing has to share
    strong        φ ≥ 0.9, at least 2 represented rows a dimension (φ ≥ 2d/n), and d·m₂ ≤ 4
    weak          between ⅔ and 1½ represented rows a dimension (φ ≈ d/n): the rest was given up
    intermediate  anything else
    ============  =====================================================================================

    The papers give the limits (φ → 1 with m₂ ≈ 1/d, and φ → d/n); the thresholds are ours. They leave a factor of
    four for the anisotropy of trained heads: the token embedding of all-MiniLM-L6-v2 has φ = 0.93, d/n = 0.013 and
    d·m₂ = 3.4. Where φ is counted against the median norm it is rarely below ½, and `weak` then needs n < 3d.

    Examples
    --------
    >>> superposition_regime(rows=30522, dim=384, represented_fraction=0.93, mean_square=0.0087).name
    'strong'
    >>> superposition_regime(rows=1000, dim=100, represented_fraction=0.11, mean_square=0.001).name
    'weak'
    """
    crowding = represented_fraction * rows / dim  # represented rows a dimension
    overlap = dim * mean_square
    name: RegimeName
    if rows <= dim:
        name = "none"
    elif represented_fraction >= STRONG_REPRESENTED and crowding >= STRONG_CROWDING and overlap <= STRONG_OVERLAP:
        name = "strong"
    elif 1 / WEAK_CROWDING <= crowding <= WEAK_CROWDING:
        name = "weak"
    else:
        name = "intermediate"
    return Regime(name, represented_fraction, dim / rows, overlap)
