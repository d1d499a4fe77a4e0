"""The rows of a matrix as directions: read block by block, brought to unit length, the unusable ones set aside.

A matrix is never held whole. It arrives as blocks of rows, may be read again from the start, and every reading
yields the same directions; the moments of `similarity` and the metrics of `superposition` only ever see those.

Symbols: `n` rows (vectors), `d` columns (dimensions), `m` rows of the chunk at hand, `u_i` the unit row i.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gramian.errors import GeometryError, TooFewRows

Block = Tensor | npt.NDArray[Any]
"""(b, d) floating-point numbers of any width, b ≥ 1, on any device."""

RowBlocks = Iterable[Block]
"""A matrix as consecutive blocks of rows; iterating again starts again at the first row."""

CHUNK_ELEMENTS = 1 << 20  # a chunk, its unit rows and one product panel then share the caches: 4 MB in float32
CHUNK_ROWS = 1024  # at least: below, adding a d×d product to its float64 sum costs as much as the product

# Within these bounds the squares of a norm's terms neither overflow nor vanish beside their sum.
SAFE_NORMS = {torch.float32: (1e-15, 1e15), torch.float64: (1e-140, 1e140)}


@dataclass(frozen=True, eq=False)
class RowBlockView:
    """An in-memory matrix cut into blocks, without a copy."""

    matrix: Block  # (n, d)
    rows: int

    def __iter__(self) -> Iterator[Block]:
        for start in range(0, self.matrix.shape[0], self.rows):
            yield self.matrix[start : start + self.rows]


def row_blocks(matrix: Block, *, rows: int = 4096) -> RowBlocks:
    """Present an in-memory matrix as blocks of `rows` rows.

    Examples
    --------
    >>> [len(block) for block in row_blocks(torch.zeros(10, 3), rows=4)]
    [4, 4, 2]
    """
    if rows < 1:
        raise GeometryError(f"a block holds at least one row, not {rows}")
    return RowBlockView(matrix, rows)


@dataclass(frozen=True, eq=False)
class RowCensus:
    """Which rows of a matrix have a direction.

    Attributes
    ----------
    rows : int
        All rows, usable or not.
    used, zero, nonfinite : int
        Rows with a direction; rows of norm 0; rows with NaN or infinity, or whose norm exceeds float64.
    zero_rows, nonfinite_rows : (zero,), (nonfinite,) int64 arrays
        Their positions in the matrix, ascending.
    """

    rows: int
    used: int
    zero: int
    nonfinite: int
    zero_rows: npt.NDArray[np.int64]
    nonfinite_rows: npt.NDArray[np.int64]

    @property
    def used_rows(self) -> npt.NDArray[np.int64]:
        """Positions of the rows with a direction, (used,), ascending."""
        return np.delete(np.arange(self.rows), np.concatenate([self.zero_rows, self.nonfinite_rows]))

    def require(self, needed: int) -> None:
        """Raise `TooFewRows` unless `needed` rows have a direction."""
        if self.used < needed:
            raise TooFewRows(used=self.used, zero=self.zero, nonfinite=self.nonfinite, needed=needed)


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The usable rows of one chunk.

    Attributes
    ----------
    unit : (m, d) tensor
        Rows of norm 1; valid until the next chunk is asked for, which may use the same memory.
    norms : (m,) float64 tensor
        Norms before scaling, in the units of the matrix.
    index, zero, nonfinite : int64 tensors
        Positions in the matrix of the rows in `unit`, and of those left out of it.
    rows : int
        Rows of the matrix in this chunk, those left out included.
    """

    unit: Tensor
    norms: Tensor
    index: Tensor
    zero: Tensor
    nonfinite: Tensor
    rows: int


class CensusTaker:
    """Counts rows while they pass."""

    def __init__(self) -> None:
        self.rows = self.used = 0
        self._zero: list[Tensor] = []
        self._nonfinite: list[Tensor] = []

    def add(self, chunk: UnitRows) -> None:
        self.rows += chunk.rows
        self.used += len(chunk.index)
        self._zero += [chunk.zero] if len(chunk.zero) else []
        self._nonfinite += [chunk.nonfinite] if len(chunk.nonfinite) else []

    def merge(self, below: "CensusTaker") -> None:
        """Take in the count of the rows that follow those counted here."""
        self._zero += [self.rows + zero for zero in below._zero]
        self._nonfinite += [self.rows + nonfinite for nonfinite in below._nonfinite]
        self.rows += below.rows
        self.used += below.used

    def census(self) -> RowCensus:
        zero, nonfinite = to_numpy(self._zero), to_numpy(self._nonfinite)
        return RowCensus(self.rows, self.used, len(zero), len(nonfinite), zero, nonfinite)


def unit_rows(blocks: RowBlocks, *, dim: int, dtype: torch.dtype) -> Iterator[UnitRows]:
    """Yield the unit rows u_i = W_i / ‖W_i‖ of a matrix, chunk by chunk.

    Parameters
    ----------
    blocks : RowBlocks
        The matrix, (n, d). Large blocks are cut; blocks of some thousand rows are the fastest.
    dim : int
        Number of columns d.
    dtype : torch.dtype
        Of the unit rows: float32 (accurate to 2e-7) or float64.

    Raises
    ------
    GeometryError
        For a block that is not a matrix of d columns of floating-point numbers.

    Notes
    -----
    Positive scaling of a row leaves its direction alone, whatever the scale: rows whose squares would overflow
    or vanish in the working precision are divided by their largest entry first.

    Examples
    --------
    >>> W = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 1e30]])
    >>> [chunk] = unit_rows([W], dim=2, dtype=torch.float64)
    >>> chunk.unit.tolist(), chunk.index.tolist(), chunk.zero.tolist()
    ([[0.6, 0.8], [0.0, 1.0]], [0, 2], [1])
    """
    start, scratch = 0, torch.empty(0, dim)
    for chunk in _chunks(blocks, dim):
        m, working = len(chunk), torch.float64 if torch.float64 in (dtype, chunk.dtype) else torch.float32
        # One buffer for all chunks: handing fresh pages to every chunk takes longer than filling them.
        if len(scratch) < m or scratch.dtype != working or scratch.device != chunk.device:
            scratch = torch.empty(m, dim, dtype=working, device=chunk.device)
        W = chunk if chunk.dtype == working else scratch[:m].copy_(chunk)  # (m, d)
        norms = torch.linalg.vector_norm(W, dim=1)  # (m,)
        index = torch.arange(start, start + m, device=W.device)
        start += m

        low, high = SAFE_NORMS[working]
        if bool(((norms > low) & (norms < high)).all()):
            unit = torch.div(W, norms[:, None], out=scratch[:m]).to(dtype)  # (m, d)
            yield UnitRows(unit, norms.to(torch.float64), index, index[:0], index[:0], m)
        else:  # a chunk with a zero, non-finite, tiny or huge row
            yield _careful_unit_rows(W.to(torch.float64), index, dtype)


def _careful_unit_rows(W: Tensor, index: Tensor, dtype: torch.dtype) -> UnitRows:
    peak = W.abs().amax(dim=1)  # (m,), NaN where the row has one
    scaled = W / peak[:, None]  # (m, d) in [-1, 1]
    relative = torch.linalg.vector_norm(scaled, dim=1)  # (m,) in [1, √d]
    norms = peak * relative

    zero = peak == 0
    kept = torch.isfinite(norms)  # excludes zero rows too: their 0/0 is NaN
    return UnitRows(
        unit=(scaled[kept] / relative[kept, None]).to(dtype),
        norms=norms[kept],
        index=index[kept],
        zero=index[zero],
        nonfinite=index[~kept & ~zero],
        rows=len(W),
    )


def _chunks(blocks: RowBlocks, dim: int) -> Iterator[Tensor]:
    rows = max(CHUNK_ROWS, -(-CHUNK_ELEMENTS // dim))  # rounded up: the last cut of a block is no single row
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != dim:
            raise GeometryError(f"a block has shape {list(block.shape)}, expected [rows, {dim}]")
        for start in range(0, block.shape[0], rows):
            yield _as_tensor(block[start : start + rows])


def _as_tensor(chunk: Block) -> Tensor:
    if isinstance(chunk, np.ndarray):
        # Torch knows neither read-only memory nor foreign byte order: such a chunk is copied, others are shared.
        chunk = torch.from_numpy(np.require(chunk, chunk.dtype.newbyteorder("="), ["C", "W"]))
    if not chunk.dtype.is_floating_point:
        raise GeometryError(f"a block holds {chunk.dtype}, expected floating-point numbers")
    # MPS has no float64, and the sums need it.
    return chunk.detach().cpu() if chunk.device.type == "mps" else chunk.detach()


def to_numpy(parts: list[Tensor]) -> npt.NDArray[Any]:
    """Join index or value vectors, one per chunk, into one array in host memory."""
    return torch.cat(parts).cpu().numpy() if parts else np.empty(0, np.int64)
