"""What a stored tensor is, and how the rows of a matrix leave the disk."""

import hashlib
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.errors import SourceChanged

Block = NDArray[Any]

# How a readable number lies in the file. NumPy has no bfloat16: its bits are the upper half of a float32.
STORED_AS = MappingProxyType({"F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2"})
READABLE_DTYPES = tuple(STORED_AS)

_CHUNK_BYTES = 4 * 2**20  # large enough for disk throughput, small beside any matrix


@dataclass(frozen=True)
class TensorInfo:
    """Name, dtype and shape of a tensor, with the dtype named as safetensors names it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements, in exact integers."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.name} {list(self.shape)} {self.dtype}"


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix (rows, dim) whose numbers lie in a local file from `offset` on; rows are vectors."""

    name: str
    dtype: str
    rows: int
    dim: int
    path: Path
    offset: int
    fortran: bool = False
    big_endian: bool = False

    @property
    def itemsize(self) -> int:
        return np.dtype(STORED_AS[self.dtype]).itemsize

    @property
    def nbytes(self) -> int:
        return self.rows * self.dim * self.itemsize

    @property
    def canonical(self) -> bool:
        """The file holds the rows as safetensors would: row after row, little-endian."""
        return not self.fortran and not self.big_endian

    def blocks(self, rows_per_block: int, *, start: int = 0, stop: int | None = None) -> "RowBlocks":
        """The rows from `start` to before `stop`, `rows_per_block` at a time; may be iterated as often as wanted."""
        if rows_per_block < 1:
            raise ValueError(f"rows_per_block must be at least 1, not {rows_per_block}")
        return RowBlocks(self, rows_per_block, start, self.rows if stop is None else stop)

    def sha256(self) -> str:
        """Hex digest of the numbers as safetensors stores them: row-major, little-endian, in the stored dtype."""
        digest = hashlib.sha256()
        for stored in self._stored_blocks(self._chunk_rows, 0, self.rows):  # (b, d)
            digest.update(stored.data)
        return digest.hexdigest()

    def same_bytes(self, other: "StoredMatrix") -> bool:
        """Whether both hold the same numbers; stops at the first chunk that differs.

        With equal dtypes the stored bits are compared, otherwise the values after widening (NaN equals NaN).
        """
        if (self.rows, self.dim) != (other.rows, other.dim):
            return False
        rows = self._chunk_rows
        if self.dtype == other.dtype:
            if self == other:
                return True
            pairs = zip(self._stored_blocks(rows, 0, self.rows), other._stored_blocks(rows, 0, self.rows), strict=True)
            return all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in pairs)
        values = zip(self.blocks(rows), other.blocks(rows), strict=True)
        return all(np.array_equal(a, b, equal_nan=True) for a, b in values)

    @property
    def _chunk_rows(self) -> int:
        return max(1, _CHUNK_BYTES // (self.dim * 8))

    def _stored_blocks(self, rows_per_block: int, first: int, stop: int) -> Iterator[Block]:
        """Blocks (b, d) in the stored dtype, little-endian and row-major, each in memory of its own."""
        stored = np.dtype(STORED_AS[self.dtype]).newbyteorder(">" if self.big_endian else "<")
        with self.path.open("rb", buffering=0) as file:
            for start in range(first, stop, rows_per_block):
                count = min(rows_per_block, stop - start)
                block = (
                    self._gather(file, stored, start, count) if self.fortran else self._read(file, stored, start, count)
                )
                yield block.astype(stored.newbyteorder("<"), copy=False)

    def _read(self, file: io.FileIO, stored: np.dtype[Any], start: int, count: int) -> Block:
        block = np.empty((count, self.dim), stored)
        _read_exactly(file, self.offset + start * self.dim * stored.itemsize, block)
        return block

    def _gather(self, file: io.FileIO, stored: np.dtype[Any], start: int, count: int) -> Block:
        columns = np.empty((self.dim, count), stored)  # the file holds one column after the other
        for j in range(self.dim):
            _read_exactly(file, self.offset + (j * self.rows + start) * stored.itemsize, columns[j])
        return np.ascontiguousarray(columns.T)  # (count, d)


@dataclass(frozen=True)
class RowBlocks:
    """Rows of a matrix as C-contiguous blocks (b, d): float32, or float64 where the file holds F64.

    Rows are read, not mapped: a file that shrinks under a map kills the process, under a read it is an error.
    Each block is new memory, and none is kept here.
    """

    matrix: StoredMatrix
    rows_per_block: int
    start: int
    stop: int

    def __len__(self) -> int:
        return (self.stop - self.start + self.rows_per_block - 1) // self.rows_per_block

    def __iter__(self) -> Iterator[Block]:
        dtype = self.matrix.dtype
        for stored in self.matrix._stored_blocks(self.rows_per_block, self.start, self.stop):
            yield _widen(stored, dtype)


def _widen(stored: Block, dtype: str) -> Block:
    if dtype == "BF16":
        bits = stored.astype(np.uint32)
        bits <<= np.uint32(16)
        return bits.view(np.float32)
    return stored.astype(np.float64 if dtype == "F64" else np.float32, copy=False)


def _read_exactly(file: io.FileIO, offset: int, into: Block) -> None:
    view = into.reshape(-1).view(np.uint8).data
    file.seek(offset)
    while view:
        got = file.readinto(view)
        if not got:
            raise SourceChanged(
                f"the file ended {len(view)} bytes before the end of the tensor: it became shorter while it was read",
                hint="submit the analysis again once nothing writes to the file",
            )
        view = view[got:]


def largest_matrices(tensors: Sequence[TensorInfo], *, limit: int) -> list[TensorInfo]:
    """The readable two-dimensional tensors with the most rows, the most first."""
    matrices = [t for t in tensors if len(t.shape) == 2 and t.size > 0 and t.dtype in STORED_AS]
    return sorted(matrices, key=lambda t: (-t.shape[0], t.name))[:limit]
