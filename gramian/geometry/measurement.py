"""Everything Gramian knows about one matrix, from two readings of its rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gramian.errors import GeometryError
from gramian.geometry.baselines import random_epsilon, welch_floor
from gramian.geometry.capacity import EpsilonClass, classify_epsilon
from gramian.geometry.parts import Tell, parts_of, side_by_side
from gramian.geometry.rows import CensusTaker, RowBlocks, RowCensus, unit_rows
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
        The matrix, (n, d); read twice, and once more where its rows are nearly parallel. The parts of `RowParts`
        are measured side by side, and the result is the same up to rounding.
    rows, dim : int
        n and d.
    products : torch.dtype, optional
        Precision of the products within a chunk; float64 for small matrices, else float32, when not given.
    progress : Progress, optional
        Called after every chunk, in the calling thread; "gram" starts over where the further reading is needed.

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
    parts = parts_of(blocks)
    if any(isinstance(part, Iterator) for part in parts):
        raise GeometryError("the blocks can be read only once, and measuring takes two passes")
    products = products or choose_products(rows, dim)

    def first_pass(part: RowBlocks, tell: Tell) -> _Sums:
        sums = _Sums(CensusTaker(), RunningPairSums(dim, products), WeightedGramSum(dim))
        for chunk in unit_rows(part, dim=dim, dtype=products):
            sums.census.add(chunk)
            sums.pairs.add(chunk.unit)
            sums.weighted.add(chunk.unit, chunk.norms)
            tell(chunk.rows)
        return sums

    first = [partial(first_pass, part) for part in parts]
    total, *others = side_by_side(first, tell=_telling(progress, "gram", rows))
    part_rows = [sums.census.rows for sums in (total, *others)]
    while others:
        total.merge(others.pop(0))  # each is let go once it is merged
    census = total.census.census()
    if census.rows != rows:
        raise GeometryError(f"the matrix was announced with {rows} rows, its blocks hold {census.rows}")
    census.require(2)
    sums = recentred(total.pairs.sums(), blocks, tell=_telling(progress, "gram", rows))
    moments = sums.moments()

    mean_cosines, dimensionality = RowMeanCosines(sums), total.weighted.dimensionality(products)

    def second_pass(part: RowBlocks, found: Tensor, tell: Tell) -> None:
        for chunk in unit_rows(part, dim=dim, dtype=mean_cosines.unit_dtype):
            means = mean_cosines(chunk.unit)
            owned = dimensionality(chunk.unit.to(products), chunk.norms)
            found[:, chunk.index.cpu()] = torch.stack([chunk.norms, means.mean, means.square, owned]).cpu()
            tell(chunk.rows)

    # One array for all rows: a few kilobytes kept of each chunk would keep the memory around them from being reused.
    found = torch.full((4, rows), torch.nan, dtype=torch.float64)
    second = [partial(second_pass, *part) for part in zip(parts, torch.split(found, part_rows, dim=1), strict=True)]
    side_by_side(second, tell=_telling(progress, "rows", rows))
    norms, mean, square, owned = found[:, census.used_rows]  # (used,) each
    row_means = RowMeans(sums.level, mean, square)
    per_row = PerRow(
        row=census.used_rows,
        norm=norms.numpy(),
        mean_cosine=row_means.cosine.numpy(),
        mean_square_cosine=row_means.square_cosine.numpy(),
        feature_dimensionality=owned.numpy(),
    )
    lengths = norm_statistics(norms)
    represented = represented_fraction(norms, scale=lengths.median)
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


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the first pass sums over the rows of a part."""

    census: CensusTaker
    pairs: RunningPairSums
    weighted: WeightedGramSum

    def merge(self, below: "_Sums") -> None:
        self.census.merge(below.census)
        self.pairs.merge(below.pairs)
        self.weighted.merge(below.weighted)


def _telling(progress: Progress | None, stage: str, rows: int) -> Tell:
    done = 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(stage, done / rows)

    return tell


def _ranked(per_row: PerRow, key: npt.NDArray[Any]) -> tuple[RankedRow, ...]:
    last = min(EXTREME_ROWS, len(key)) - 1
    candidates = np.flatnonzero(key <= np.partition(key, last)[last])  # sorting all rows would take longer
    first = candidates[np.argsort(key[candidates], kind="stable")][:EXTREME_ROWS]
    return tuple(
        RankedRow(int(per_row.row[i]), float(per_row.mean_square_cosine[i]), float(per_row.mean_cosine[i]))
        for i in first
    )
