"""The distribution of the cosine over pairs of rows: what the Gram matrix does not hold.

Mean, variance and ε follow from d×d sums (`similarity`). The histogram, quantiles, extremes and the mean |cosine| need
the pairs themselves, all n(n−1)/2 of them (`exact_pairs`, O(n²·d) time) or a random draw (`sampled_pairs`). Neither
holds an n×n matrix, nor the matrix where it is large: a window of rows is held while the rows from there on pass by.
On a CPU those are passed by several threads, each its share.

Cosines are counted on a fine grid over [−1, 1], of 2¹⁶ cells or a few more. The histogram adds cells up, quantiles are
read off within a cell's width. Counts are int64: 151,936 rows have 11.5 billion pairs.

Source of the band of a sample: P. Massart, Ann. Probab. 18 (1990), the Dvoretzky–Kiefer–Wolfowitz inequality with its
best constant.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf, log, sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gramian.errors import GeometryError
from gramian.geometry.parts import Tell, side_by_side
from gramian.geometry.rows import RowBlocks, unit_rows

Mode = Literal["exact", "sampled"]

RowRange = Callable[[int, int], RowBlocks]
"""The rows of a matrix from `start` to before `stop`, as blocks."""

Progress = Callable[[float], None]
"""Told the fraction of the pairs done, in the calling thread."""

FINE_CELLS = 1 << 16
WINDOW_BYTES = 96 * 1024**2  # of unit rows
TILE = 1 << 20  # cosines formed at a time by a thread: they and their cells stay near the caches
GATHERED = 1 << 18  # numbers gathered at a time for drawn pairs
BATCH = 1_000_000  # pairs drawn at a time
CONFIDENCE = 0.95  # of the band around a sampled distribution
QUANTILES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """The cosine over pairs of usable rows.

    Attributes
    ----------
    mode : "exact" or "sampled"
        Over all pairs, or over a draw with replacement.
    pairs : int
        How many were looked at.
    minimum, maximum : float
        Extremes; over all pairs, max(−minimum, maximum) is the mutual coherence.
    mean_abs : float
        Mean |cosine|.
    mean_abs_error : float or None
        Standard error of it where pairs were drawn; None over all pairs.
    edges, counts : (bins + 1,), (bins,) arrays
        The histogram over [−1, 1]; the last bin includes 1. `counts` is int64 and adds up to `pairs`.
    quantiles : tuple of (level, cosine)
        The cosine that so large a share of the pairs does not exceed.
    resolution : float
        Quantiles are right within this, the width of a cell of the fine grid.
    band : float or None
        Of a draw: with a probability of at least 95 % its cumulative distribution is nowhere further from that of all
        pairs. None over all pairs.
    """

    mode: Mode
    pairs: int
    minimum: float
    maximum: float
    mean_abs: float
    mean_abs_error: float | None
    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    quantiles: tuple[tuple[float, float], ...]
    resolution: float
    band: float | None


def exact_pairs(
    row_range: RowRange,
    *,
    rows: int,
    dim: int,
    bins: int = 400,
    products: torch.dtype = torch.float32,
    window_rows: int | None = None,
    progress: Progress = lambda _: None,
) -> PairStatistics:
    """Look at every pair of usable rows, O(n²·d) time.

    Parameters
    ----------
    row_range : RowRange
        Reads a range of rows. Zero and non-finite rows are left out.
    rows, dim : int
        n and d.
    bins : int
        Of the histogram.
    products : torch.dtype
        Precision of the products, float32 (cosines to some 1e-7) or float64.
    window_rows : int, optional
        Rows in a window.
    progress : Progress
        Told after every window.

    Raises
    ------
    GeometryError
        With fewer than two usable rows, or no bin.

    Examples
    --------
    >>> W = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> found = exact_pairs(lambda start, stop: [W[start:stop]], rows=3, dim=2, bins=4)
    >>> found.counts.tolist(), found.minimum, found.maximum
    ([1, 0, 2, 0], -1.0, 0.0)
    """
    matrix = _Matrix(row_range, rows, dim, products)
    total = _Tally(bins)
    for start, stop in matrix.windows(window_rows):
        window = matrix.window(start, stop)
        count = window.threads
        within = _cuts(start, stop, np.sqrt(np.linspace(0, 1, count + 1)))
        beyond = _cuts(stop, rows, np.linspace(0, 1, count + 1))
        tasks = [partial(_compare_all, matrix, window, ranges, bins) for ranges in zip(within, beyond, strict=True)]
        for tally in side_by_side(tasks, tell=lambda _: None):
            total.merge(tally)
        left = (rows - stop) / rows
        progress(1 - left**2)
    return total.statistics("exact")


def sampled_pairs(
    row_range: RowRange,
    *,
    used_rows: npt.NDArray[np.int64],
    dim: int,
    samples: int,
    seed: int,
    bins: int = 400,
    products: torch.dtype = torch.float32,
    window_rows: int | None = None,
    progress: Progress = lambda _: None,
) -> PairStatistics:
    """Look at pairs of distinct usable rows, drawn independently and uniformly with replacement.

    Parameters
    ----------
    row_range, dim, bins, products, window_rows, progress
        See `exact_pairs`.
    used_rows : (used,) int64 array
        Positions of the rows that have a direction, ascending (`RowCensus.used_rows`).
    samples, seed : int
        Pairs drawn, and the generator's seed. The draw does not depend on the windows.

    Raises
    ------
    GeometryError
        With fewer than two usable rows, no sample or no bin.

    Examples
    --------
    >>> W = torch.eye(5)
    >>> found = sampled_pairs(lambda start, stop: [W[start:stop]], used_rows=np.arange(5), dim=5, samples=100, seed=0)
    >>> found.pairs, found.maximum, round(found.band, 4)
    (100, 0.0, 0.1358)
    """
    used = len(used_rows)
    if used < 2 or samples < 1:
        raise GeometryError(f"at least one pair is drawn from at least two usable rows, not {samples} from {used}")
    matrix = _Matrix(row_range, int(used_rows[-1]) + 1, dim, products)
    generator = np.random.default_rng(seed)
    total = _Tally(bins)
    while total.pairs < samples:
        pairs = _draw(used_rows, min(BATCH, samples - total.pairs), generator)  # (2, count)
        for start, stop in matrix.windows(window_rows):
            members = pairs[:, (pairs[0] >= start) & (pairs[0] < stop)]  # the later row ascends
            if not members.size:
                continue
            window = matrix.window(start, stop)
            cuts = _cuts(0, members.shape[1], np.linspace(0, 1, window.threads + 1))
            tasks = [partial(_compare_drawn, matrix, window, members[:, slice(*cut)], bins) for cut in cuts]
            for tally in side_by_side(tasks, tell=lambda _: None):
                total.merge(tally)
            progress(total.pairs / samples)
    return total.statistics("sampled")


def _draw(used_rows: npt.NDArray[np.int64], count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Pairs of distinct rows, (2, count): the earlier row of each first, the pairs by their later row."""
    first = generator.integers(0, len(used_rows), count)
    second = generator.integers(0, len(used_rows) - 1, count)
    second += second >= first
    pairs = used_rows[np.stack([first, second])]
    pairs.sort(axis=0)
    return pairs[:, np.argsort(pairs[1], kind="stable")]


@dataclass(frozen=True, eq=False)
class _Window:
    """Rows held in memory: unit rows (m, d), and their positions in the matrix, (m,) int64, ascending."""

    unit: Tensor
    index: Tensor

    @property
    def threads(self) -> int:
        """How many threads pass rows by: a GPU and torch's own threads would only be in each other's way."""
        return torch.get_num_threads() if self.unit.device.type == "cpu" else 1


@dataclass(frozen=True, eq=False)
class _Matrix:
    """A matrix of which any rows can be read."""

    row_range: RowRange
    rows: int
    dim: int
    dtype: torch.dtype

    def windows(self, width: int | None) -> list[tuple[int, int]]:
        width = width or max(1, WINDOW_BYTES // (self.dim * self.dtype.itemsize))
        return [(start, min(start + width, self.rows)) for start in range(0, self.rows, width)]

    def window(self, start: int, stop: int) -> _Window:
        unit, index, filled = torch.empty(0, self.dim), [torch.empty(0, dtype=torch.int64)], 0
        for chunk, positions in self.chunks(start, stop):
            if not filled:
                unit, index = chunk.new_empty(stop - start, self.dim), []
            unit[filled : filled + len(chunk)] = chunk
            index.append(positions)
            filled += len(chunk)
        return _Window(unit[:filled], torch.cat(index))

    def chunks(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Unit rows (m, d) and their positions, (m,); valid until the next are asked for."""
        if start < stop:
            for chunk in unit_rows(self.row_range(start, stop), dim=self.dim, dtype=self.dtype):
                if len(chunk.unit):
                    yield chunk.unit, start + chunk.index


class _Tally:
    """Counts cosines as they are formed."""

    def __init__(self, bins: int) -> None:
        if bins < 1:
            raise GeometryError(f"a histogram has at least one bin, not {bins}")
        self._bins = bins
        self._cells = torch.zeros(bins * -(-FINE_CELLS // bins), dtype=torch.int64)
        self._abs = self._square = 0.0
        self._minimum, self._maximum = inf, -inf
        self.pairs = 0

    def add(self, cosines: Tensor) -> None:
        """Count a vector or matrix of cosines, which may have left [−1, 1] by rounding."""
        if not cosines.numel():
            return
        cosines = cosines.flatten()
        low, high = cosines.aminmax()
        self._minimum, self._maximum = min(self._minimum, float(low)), max(self._maximum, float(high))
        self._abs += float(torch.linalg.vector_norm(cosines, 1, dtype=torch.float64))
        self._square += float(torch.linalg.vector_norm(cosines, dtype=torch.float64)) ** 2
        cells = len(self._cells)
        places = cosines.add(1).mul_(cells / 2).clamp_(0, cells - 1).to(torch.int64)
        self._cells += torch.bincount(places, minlength=cells).cpu()
        self.pairs += len(cosines)

    def merge(self, other: "_Tally") -> None:
        self._cells += other._cells
        self._abs += other._abs
        self._square += other._square
        self._minimum, self._maximum = min(self._minimum, other._minimum), max(self._maximum, other._maximum)
        self.pairs += other.pairs

    def statistics(self, mode: Mode) -> PairStatistics:
        if not self.pairs:
            raise GeometryError("there is no pair: at least two rows must have a direction")
        cells, pairs = self._cells.numpy(), self.pairs
        mean_abs = self._abs / pairs
        is_draw = mode == "sampled"
        spread = sqrt(max(self._square / pairs - mean_abs**2, 0.0))
        low, high = max(self._minimum, -1.0), min(self._maximum, 1.0)
        return PairStatistics(
            mode=mode,
            pairs=pairs,
            minimum=low,
            maximum=high,
            mean_abs=mean_abs,
            mean_abs_error=spread / sqrt(pairs) if is_draw else None,
            edges=np.linspace(-1.0, 1.0, self._bins + 1),
            counts=cells.reshape(self._bins, -1).sum(axis=1),
            quantiles=tuple((level, min(max(_quantile(cells, level), low), high)) for level in QUANTILES),
            resolution=2 / len(cells),
            band=sqrt(log(2 / (1 - CONFIDENCE)) / (2 * pairs)) if is_draw else None,
        )


def _quantile(cells: npt.NDArray[np.int64], level: float) -> float:
    """The middle of the cell in which the share of pairs reaches the level."""
    reached = np.searchsorted(np.cumsum(cells), level * cells.sum())
    return float((reached + 0.5) * 2 / len(cells) - 1)


def _compare_all(
    matrix: _Matrix, window: _Window, ranges: tuple[tuple[int, int], tuple[int, int]], bins: int, tell: Tell
) -> _Tally:
    """The rows of two ranges, one inside the window and one after it, each with all rows of the window before it."""
    tally = _Tally(bins)
    inside, beyond = ranges
    for unit, index in matrix.chunks(*inside):
        earlier = int(torch.searchsorted(window.index, index[0]))
        _tile(tally, unit, window.unit[:earlier])
        rows = max(1, TILE // len(unit))
        for top in range(0, len(unit), rows):
            cosines = unit[top : top + rows] @ unit[: top + rows].T
            tally.add(cosines[torch.ones_like(cosines, dtype=torch.bool).tril_(top - 1)])
        tell(len(unit))
    for unit, _ in matrix.chunks(*beyond):
        _tile(tally, unit, window.unit)
        tell(len(unit))
    return tally


def _tile(tally: _Tally, U: Tensor, V: Tensor) -> None:
    """Every row of U with every row of V."""
    step = max(1, TILE // len(U))
    for left in range(0, len(V), step):
        tally.add(U @ V[left : left + step].T)


def _compare_drawn(matrix: _Matrix, window: _Window, pairs: npt.NDArray[np.int64], bins: int, tell: Tell) -> _Tally:
    """Pairs (2, count) by their later row; the earlier one lies in the window."""
    tally = _Tally(bins)
    if not pairs.size:
        return tally
    step = max(1, GATHERED // matrix.dim)
    early, late = (torch.from_numpy(np.ascontiguousarray(side)).to(window.index.device) for side in pairs)
    early = torch.searchsorted(window.index, early)
    for unit, index in matrix.chunks(int(pairs[1, 0]), int(pairs[1, -1]) + 1):
        begin, end = torch.searchsorted(late, torch.stack([index[0], index[-1] + 1])).tolist()
        for start in range(begin, end, step):
            members = slice(start, min(start + step, end))
            there = torch.searchsorted(index, late[members])
            U, V = window.unit.index_select(0, early[members]), unit.index_select(0, there)
            tally.add(torch.bmm(U[:, None], V[:, :, None]))
        tell(end - begin)
    return tally


def _cuts(start: int, stop: int, shares: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Consecutive ranges that cover [start, stop), cut at shares from 0 to 1."""
    return list(pairwise((start + np.rint(shares * (stop - start)).astype(int)).tolist()))
