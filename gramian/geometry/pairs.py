"""The distribution of the cosine over pairs of rows: what the Gram matrix does not hold.

Mean, variance and ε follow from d×d sums (`similarity`). The histogram, quantiles, extremes and the mean |cosine| need
the pairs themselves, all n(n−1)/2 of them (`exact_pairs`, O(n²·d) time) or a random draw (`sampled_pairs`). Neither
holds the matrix or an n×n matrix: rows are read in windows, two of which are in memory at a time.

Cosines are counted on a fine grid over [−1, 1], of 2¹⁶ cells or a few more. The histogram adds cells up, quantiles are
read off within a cell's width. Counts are int64: 151,936 rows have 11.5 billion pairs.

Source of the band of a sample: P. Massart, Ann. Probab. 18 (1990), the Dvoretzky–Kiefer–Wolfowitz inequality with its
best constant.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil, inf, log, sqrt
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
WINDOW_BYTES = 48 * 1024**2  # of unit rows; two windows are held
TILE = (256, 4096)  # cosines formed at a time by a thread: they and their cells stay near the caches
GATHERED = 1 << 18  # numbers gathered at a time for drawn pairs
BATCH = 2_000_000  # pairs drawn at a time
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
        Told after every two windows.

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
    windows = _Windows(row_range, rows, dim, products, window_rows)
    total = _Tally(bins)
    for low in range(len(windows)):
        U, _ = windows[low]  # (m, d)
        for high in range(low, len(windows)):
            V = U if high == low else windows[high][0]  # (l, d)
            compare = _compare_within if high == low else _compare
            tasks = [partial(compare, U, V, part, bins) for part in _shares(U, is_triangle=high == low)]
            for tally in side_by_side(tasks, tell=lambda _: None):
                total.merge(tally)
            progress(windows.share_done(low, high))
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
    windows = _Windows(row_range, int(used_rows[-1]) + 1, dim, products, window_rows)
    generator = np.random.default_rng(seed)
    total = _Tally(bins)
    while total.pairs < samples:
        count = min(BATCH, samples - total.pairs)
        first, second = generator.integers(0, used, count), generator.integers(0, used - 1, count)
        second += second >= first
        pairs = np.sort(used_rows[np.stack([first, second])], axis=0)  # (2, count), the earlier row first
        for low, high, members in _by_windows(pairs, windows):
            U, u_index = windows[low]
            V, v_index = (U, u_index) if high == low else windows[high]
            left = torch.searchsorted(u_index, torch.from_numpy(members[0]).to(u_index.device))
            right = torch.searchsorted(v_index, torch.from_numpy(members[1]).to(v_index.device))
            places = torch.stack([left, right])  # (2, members), within the windows
            tasks = [partial(_compare_drawn, U, V, places[:, slice(*part)], bins) for part in _shares(left)]
            for tally in side_by_side(tasks, tell=lambda _: None):
                total.merge(tally)
            progress(total.pairs / samples)
    return total.statistics("sampled")


class _Windows:
    """A matrix as windows of unit rows, each read when it is asked for."""

    def __init__(self, row_range: RowRange, rows: int, dim: int, dtype: torch.dtype, width: int | None) -> None:
        self._row_range = row_range
        self._rows, self._dim, self._dtype = rows, dim, dtype
        self.width = width or max(1, WINDOW_BYTES // (dim * dtype.itemsize))

    def __len__(self) -> int:
        return ceil(self._rows / self.width)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        """Unit rows (m, d), and their positions in the matrix, (m,) int64, ascending."""
        start = number * self.width
        stop = min(start + self.width, self._rows)
        unit, index, filled = torch.empty(0), [], 0
        for chunk in unit_rows(self._row_range(start, stop), dim=self._dim, dtype=self._dtype):
            if not filled:
                unit = chunk.unit.new_empty(stop - start, self._dim)
            unit[filled : filled + len(chunk.unit)] = chunk.unit
            index.append(start + chunk.index)
            filled += len(chunk.unit)
        return unit[:filled], torch.cat(index)

    def share_done(self, low: int, high: int) -> float:
        """Of all pairs of windows, those up to this one, in the order of `exact_pairs`."""
        count = len(self)
        before = low * count - low * (low - 1) // 2
        return (before + high - low + 1) / (count * (count + 1) // 2)


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


def _compare(U: Tensor, V: Tensor, part: tuple[int, int], bins: int, tell: Tell) -> _Tally:
    """Every row of a part of U with every row of V."""
    tally, (high, wide) = _Tally(bins), TILE
    for top in range(*part, high):
        rows = U[top : min(top + high, part[1])]
        for left in range(0, len(V), wide):
            tally.add(rows @ V[left : left + wide].T)
        tell(len(rows))
    return tally


def _compare_within(U: Tensor, _: Tensor, part: tuple[int, int], bins: int, tell: Tell) -> _Tally:
    """Every row of a part of U with the rows of U after it."""
    tally, (high, wide) = _Tally(bins), TILE
    for top in range(*part, high):
        rows = U[top : min(top + high, part[1])]
        upper = torch.triu_indices(len(rows), len(rows), 1, device=U.device)
        tally.add((rows @ rows.T)[upper[0], upper[1]])
        for left in range(top + len(rows), len(U), wide):
            tally.add(rows @ U[left : left + wide].T)
        tell(len(rows))
    return tally


def _compare_drawn(U: Tensor, V: Tensor, places: Tensor, bins: int, tell: Tell) -> _Tally:
    """Row places[0, i] of U with row places[1, i] of V."""
    tally, step = _Tally(bins), max(1, GATHERED // U.shape[1])
    for left, right in zip(torch.split(places[0], step), torch.split(places[1], step), strict=True):
        cosines = torch.bmm(U.index_select(0, left)[:, None], V.index_select(0, right)[:, :, None])
        tally.add(cosines)
        tell(len(left))
    return tally


def _shares(U: Tensor, *, is_triangle: bool = False) -> list[tuple[int, int]]:
    """Ranges of rows with about as many pairs each, one a thread; one alone for a GPU."""
    count = torch.get_num_threads() if U.device.type == "cpu" and len(U) > TILE[0] else 1
    shares = np.linspace(0, 1, count + 1)
    cuts = (1 - np.sqrt(1 - shares)) if is_triangle else shares  # row i has n − 1 − i rows after it
    return list(pairwise(np.rint(cuts * len(U)).astype(int).tolist()))


def _by_windows(pairs: npt.NDArray[np.int64], windows: _Windows) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
    """Pairs grouped by the two windows that their rows lie in: (window, window, (2, members))."""
    lows, highs = pairs // windows.width
    keys = lows * len(windows) + highs
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    for key, members in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield *divmod(key, len(windows)), np.ascontiguousarray(pairs[:, members])
