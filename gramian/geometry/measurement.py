"""Everything Gramian knows about one matrix, from two readings of its rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gramian.errors import GeometryError
from gramian.geometry.baselines import random_epsilon, welch_floor
from gramian.geometry.capacity import EpsilonClass, classify_epsilon
from gramian.geometry.rows import CensusTaker, RowBlocks, RowCensus, UnitRows, to_numpy, unit_rows
from gramian.geometry.similarity import (
    CosineMoments,
    RowMeanCosines,
    RowMeans,
    RunningPairSums,
    StandardErrors,
    choose_products,
    recentred,
    standard_errors,
)
from gramian.geometry.spectrum import effective_rank
from gramian.geometry.superposition import (
    NormStatistics,
    Regime,
    WeightedGramSum,
    norm_statistics,
    represented_fraction,
    superposition_regime,
)

EXTREME_ROWS = 10  # how many most and least overlapping rows are named

Progress = Callable[[str, float], None]
"""Told the stage, "gram" or "rows", and the fraction of its rows that are done."""


@dataclass(frozen=True)
class RankedRow:
    """A row of the matrix by position, with its mean squared and mean cosine over its n−1 pairs."""

    row: int
    mean_square: float
    mean: float


@dataclass(frozen=True, eq=False)
class PerRow:
    """One value for each usable row, in order: (used,) arrays."""

    row: npt.NDArray[np.int64]  # position in the matrix
    norm: npt.NDArray[np.float64]
    mean_cosine: npt.NDArray[np.float64]
    mean_square_cosine: npt.NDArray[np.float64]
    feature_dimensionality: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MatrixGeometry:
    """The geometry of one matrix.

    Attributes
    ----------
    dim : int
        Number of columns d.
    products : str
        Precision of the matrix products, "float32" or "float64".
    census : RowCensus
        Which rows were used; every other number is of those.
    moments : CosineMoments
        μ, σ, m₂ and ε of the pairwise cosines.
    standard_errors : StandardErrors
        Of μ, σ and ε.
    random_epsilon, epsilon_excess : float
        2/√d, and ε as a multiple of it: 1 for isotropic random rows.
    epsilon_class : EpsilonClass
        See `capacity.classify_epsilon`.
    effective_rank : float
        Participation ratio of the spectrum of UᵀU.
    welch_floor, overlap_times_dim : float
        The least possible m₂, and d·m₂.
    norms : NormStatistics
        Of the row norms.
    represented_fraction : float
        Share of rows longer than half the median norm.
    feature_dimensionality : float
        Mean of D_i over the rows.
    regime : Regime
        Of superposition, with what it rests on.
    most_overlapping, least_overlapping : tuple of RankedRow
        Up to ten rows by mean squared cosine, the most extreme first; of equals, the earlier row first.
    per_row : PerRow
        The same for all rows.
    """

    dim: int
    products: str
    census: RowCensus
    moments: CosineMoments
    standard_errors: StandardErrors
    random_epsilon: float
    epsilon_excess: float
    epsilon_class: EpsilonClass
    effective_rank: float
    welch_floor: float
    overlap_times_dim: float
    norms: NormStatistics
    represented_fraction: float
    feature_dimensionality: float
    regime: Regime
    most_overlapping: tuple[RankedRow, ...]
    least_overlapping: tuple[RankedRow, ...]
    per_row: PerRow


def measure_matrix(
    blocks: RowBlocks,
    *,
    rows: int,
    dim: int,
    products: torch.dtype | None = None,
    progress: Progress | None = None,
) -> MatrixGeometry:
    """Measure a matrix in two passes over its rows, O(n·d²) time and O(n + d²) memory.

    Parameters
    ----------
    blocks : RowBlocks
        The matrix, (n, d); read twice, and once more where its rows are nearly parallel.
    rows, dim : int
        n and d.
    products : torch.dtype, optional
        Precision of the products within a chunk; float64 for small matrices, else float32, when not given.
    progress : Progress, optional
        Called after every chunk; "gram" starts over where the further reading is needed.

    Raises
    ------
    TooFewRows
        With fewer than two usable rows.
    GeometryError
        For blocks that do not add up to a matrix of n rows and d columns, or that cannot be read again.

    Examples
    --------
    >>> geometry = measure_matrix([torch.eye(3), -torch.eye(3)], rows=6, dim=3)
    >>> geometry.moments.pairs, geometry.moments.mean, geometry.feature_dimensionality
    (15, -0.2, 0.5)
    """
    if isinstance(blocks, Iterator):
        raise GeometryError("the blocks can be read only once, and measuring takes two passes")
    products = products or choose_products(rows, dim)

    def report(stage: str, chunk: UnitRows) -> None:
        if progress is not None:
            progress(stage, chunk.end / rows)

    taker, pairs, weighted = CensusTaker(), RunningPairSums(dim, products), WeightedGramSum(dim)
    for chunk in unit_rows(blocks, dim=dim, dtype=products):
        taker.add(chunk)
        pairs.add(chunk.unit)
        weighted.add(chunk.unit, chunk.norms)
        report("gram", chunk)
    census = taker.census()
    if census.rows != rows:
        raise GeometryError(f"the matrix was announced with {rows} rows, its blocks hold {census.rows}")
    census.require(2)
    sums = recentred(pairs.sums(), blocks, watch=lambda chunk: report("gram", chunk))
    moments = sums.moments()

    mean_cosines, dimensionality = RowMeanCosines(sums), weighted.dimensionality(products)
    index: list[Tensor] = []
    norms: list[Tensor] = []
    means: list[RowMeans] = []
    dimensionalities: list[Tensor] = []
    for chunk in unit_rows(blocks, dim=dim, dtype=mean_cosines.unit_dtype):
        index.append(chunk.index)
        norms.append(chunk.norms)
        means.append(mean_cosines(chunk.unit))
        dimensionalities.append(dimensionality(chunk.unit.to(products), chunk.norms))
        report("rows", chunk)

    row_means = RowMeans(sums.level, torch.cat([m.mean for m in means]), torch.cat([m.square for m in means]))
    per_row = PerRow(
        row=to_numpy(index),
        norm=to_numpy(norms),
        mean_cosine=row_means.cosine.cpu().numpy(),
        mean_square_cosine=row_means.square_cosine.cpu().numpy(),
        feature_dimensionality=to_numpy(dimensionalities),
    )
    lengths = norm_statistics(torch.cat(norms))
    represented = represented_fraction(torch.cat(norms), scale=lengths.median)
    return MatrixGeometry(
        dim=dim,
        products=str(products).removeprefix("torch."),
        census=census,
        moments=moments,
        standard_errors=standard_errors(moments, row_means),
        random_epsilon=random_epsilon(dim),
        epsilon_excess=moments.epsilon / random_epsilon(dim),
        epsilon_class=classify_epsilon(moments.epsilon),
        effective_rank=effective_rank(census.used, moments.mean_square),
        welch_floor=welch_floor(census.used, dim),
        overlap_times_dim=dim * moments.mean_square,
        norms=lengths,
        represented_fraction=represented,
        feature_dimensionality=float(per_row.feature_dimensionality.mean()),
        regime=superposition_regime(
            rows=census.used, dim=dim, represented_fraction=represented, mean_square=moments.mean_square
        ),
        most_overlapping=_ranked(per_row, -per_row.mean_square_cosine),
        least_overlapping=_ranked(per_row, per_row.mean_square_cosine),
        per_row=per_row,
    )


def _ranked(per_row: PerRow, key: npt.NDArray[Any]) -> tuple[RankedRow, ...]:
    first = np.argsort(key, kind="stable")[:EXTREME_ROWS]
    return tuple(
        RankedRow(int(per_row.row[i]), float(per_row.mean_square_cosine[i]), float(per_row.mean_cosine[i]))
        for i in first
    )
