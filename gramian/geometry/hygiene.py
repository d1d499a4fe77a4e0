"""Rows that are no token's trained vector: which they are, and a matrix read as if they were not there.

Symbols: `n` rows, `d` columns, `b` rows of the block at hand.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gramian.errors import GeometryError
from gramian.geometry.rows import Block, RowBlocks, unit_rows

RowNumbers = npt.NDArray[np.int64]
"""Positions of rows in a matrix, ascending."""

NORM_JUMP = 2.0
NEAR_SHARE = 0.95  # of the rows known to be unused, the share that marks off their neighbourhood
NEAR_FACTOR = 2.0  # and other unused rows lie further off than these, whose own mean it is
MOST_OTHERS = 0.1  # of the other rows may lie in it: where more do, it is no neighbourhood
FEWEST_REFERENCES = 3
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class WithoutRows:
    """Blocks in which some rows read as zeros, which every measure leaves out; the others keep their places.

    Examples
    --------
    >>> W = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    >>> [block.tolist() for block in WithoutRows([W], np.array([1]))]
    [[[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]]]
    """

    blocks: RowBlocks
    left_out: RowNumbers
    start: int = 0
    """Position of the blocks' first row."""

    def __iter__(self) -> Iterator[Block]:
        at = self.start
        for block in self.blocks:
            first, last = np.searchsorted(self.left_out, [at, at + len(block)])
            at += len(block)
            yield block if first == last else _blanked(block, self.left_out[first:last] - (at - len(block)))


def _blanked(block: Block, rows: RowNumbers) -> Block:
    copy = block.clone() if isinstance(block, torch.Tensor) else block.copy()
    copy[rows] = 0.0
    return copy


def duplicate_rows(blocks: RowBlocks, *, without: RowNumbers | None = None) -> RowNumbers:
    """Rows whose numbers are those of an earlier row, which is kept.

    Parameters
    ----------
    blocks : RowBlocks
        The matrix, (n, d), in host memory; read once. 32 bytes a row are held.
    without : RowNumbers, optional
        Rows not to look at.

    Notes
    -----
    Numbers are compared, not bits: 0 and −0 are one number. Rows of zeros and rows with NaN or infinity are nobody's
    duplicates: they are left out of every measure anyway.

    Examples
    --------
    >>> W = torch.tensor([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [-0.0, 1.0], [2.0, 4.0]])
    >>> duplicate_rows([W]).tolist()
    [2, 3]
    """
    digests, places, at = [], [], 0
    for block in blocks:
        numbers = np.ascontiguousarray(block) + 0.0  # −0 + 0 is 0
        usable = np.asarray(np.isfinite(numbers).all(axis=1) & numbers.any(axis=1))
        if without is not None:
            first, last = np.searchsorted(without, [at, at + len(numbers)])
            usable[without[first:last] - at] = False
        kept = np.flatnonzero(usable)
        digests += [hashlib.blake2b(numbers[row], digest_size=32).digest() for row in kept]
        places.append(at + kept)
        at += len(numbers)
    if not digests:
        return np.empty(0, np.int64)
    _, first_of_each = np.unique(np.frombuffer(b"".join(digests), dtype="V32"), return_index=True)
    return np.delete(np.concatenate(places), first_of_each)


def short_rows(norms: npt.NDArray[np.float64]) -> RowNumbers:
    """Rows below the highest jump of the norms by a factor of two under their median.

    Parameters
    ----------
    norms : (n,) array
        Of the rows; rows of norm 0 or NaN are not among those found.

    Notes
    -----
    In an input embedding with a head of its own, a token that training never met keeps a vector that only weight decay
    has touched: its norm tells it from others (Land and Bartolo, arXiv:2405.05417). Norms of trained rows have no such
    jump; where there is none, no row is found.

    Examples
    --------
    >>> short_rows(np.array([1.0, 0.01, 1.2, 0.9, 0.011, 1.1])).tolist()
    [1, 4]
    >>> short_rows(np.array([1.0, 1.2, 0.9, 1.1])).tolist()
    []
    """
    usable = np.flatnonzero(norms > 0)
    ascending = np.sort(norms[usable])
    below_median = ascending[: len(ascending) // 2 + 1]
    jumps = np.flatnonzero(below_median[1:] >= NORM_JUMP * below_median[:-1])
    if not len(jumps):
        return np.empty(0, np.int64)
    short: RowNumbers = usable[norms[usable] <= below_median[jumps[-1]]]
    return short


def rows_like(blocks: RowBlocks, references: RowNumbers, *, dim: int) -> RowNumbers:
    """Rows that point where the rows known to be unused point, those included.

    Parameters
    ----------
    blocks : RowBlocks
        The matrix, (n, d); read twice.
    references : RowNumbers
        Rows that no text uses; three at least must have a direction.
    dim : int
        Number of columns d.

    Raises
    ------
    GeometryError
        With fewer references, or if they do not stand apart: a tenth of the other rows or more are as near to their
        mean as they are themselves.

    Notes
    -----
    In a matrix that is also the head, every step pushes the vectors of tokens that do not occur in one common
    direction, so their distance 1 − cos to the mean of unused rows tells them from others (Land and Bartolo,
    arXiv:2405.05417). Near is up to twice the distance that 95 % of the references do not exceed.
    """
    is_reference = set(references.tolist())
    total, count = torch.zeros(dim, dtype=torch.float64), 0
    for chunk in unit_rows(blocks, dim=dim, dtype=torch.float64):
        chosen = torch.tensor([int(row) in is_reference for row in chunk.index], dtype=torch.bool)
        total += (chunk.unit[chosen] * chunk.norms[chosen, None]).sum(dim=0).cpu()
        count += int(chosen.sum())
    if count < FEWEST_REFERENCES:
        raise GeometryError(f"{count} rows are known to be unused, at least {FEWEST_REFERENCES} are needed")
    centre = torch.nn.functional.normalize(total, dim=0)

    places, nearness = [], []
    for chunk in unit_rows(blocks, dim=dim, dtype=torch.float64):
        places.append(chunk.index.cpu().numpy())
        nearness.append((chunk.unit @ centre.to(chunk.unit.device)).cpu().numpy())
    rows, cosines = np.concatenate(places), np.concatenate(nearness)
    known = np.isin(rows, references)
    distances = np.maximum(1 - cosines, ROUNDING)
    near = distances <= NEAR_FACTOR * np.quantile(distances[known], NEAR_SHARE)
    others = near & ~known
    if others.sum() > MOST_OTHERS * (~known).sum():
        raise GeometryError(
            f"the {count} rows known to be unused do not stand apart: "
            f"{others.sum():,} other rows are as near to their mean"
        )
    return np.union1d(rows[near], rows[known])
