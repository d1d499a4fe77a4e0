"""k lines in R^d that can be written down, with the least largest |cosine| that is known here, and the proof of it.

Up to d lines there is an orthonormal basis. Beyond, the set of `codes` with the smallest ε that has k lines is taken
and its first k lines are used: they begin with a whole orthonormal basis, so that every further line meets all values
of a Walsh–Hadamard spectrum with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gramian.errors import TooFewLines
from gramian.geometry.binary_field import LARGEST_DEGREE
from gramian.geometry.codes import LineSet

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Proof:
    """How the largest |cosine| is known without a look at all pairs.

    Attributes
    ----------
    by : "orthonormal_basis" or "walsh_hadamard"
    words : str
        The same as a sentence.
    m, terms : int or None
        Which of the sets of `codes`.
    lines : int
        How many lines the whole set has.
    transforms : int
        Walsh–Hadamard transforms that were computed.
    """

    by: Literal["orthonormal_basis", "walsh_hadamard"]
    words: str
    m: int | None
    terms: int | None
    lines: int
    transforms: int


@dataclass(frozen=True)
class ExplicitLines:
    """k lines in R^d and their largest |cosine|."""

    vectors: int
    dim: int
    epsilon: float
    proof: Proof
    set: LineSet | None

    def blocks(self, rows: int) -> Iterator[Rows]:
        """Unit vectors on the lines, (k, d) in blocks of so many rows."""
        if self.set is None:
            for start in range(0, self.vectors, rows):
                stop = min(start + rows, self.vectors)
                block = np.zeros((stop - start, self.dim), np.float32)
                block[np.arange(stop - start), np.arange(start, stop)] = 1
                yield block
            return
        scale = np.float32(1 / sqrt(1 << self.set.m))
        for signs in self.set.blocks(block_rows=rows, limit=self.vectors):
            yield signs * scale


def explicit_lines(k: int, d: int) -> ExplicitLines:
    """The k lines with the smallest largest |cosine| of the sets known here, proven.

    Parameters
    ----------
    k, d : int
        Lines and dimensions, at least 1 each.

    Raises
    ------
    TooFewLines
        Where no set has k lines.

    Examples
    --------
    >>> found = explicit_lines(16384, 128)
    >>> found.epsilon, found.proof.m, found.proof.terms, found.proof.transforms
    (0.125, 7, 1, 1)
    """
    if k <= d:
        words = f"the first {k:,} axes of {d:,}: orthonormal"
        return ExplicitLines(k, d, 0.0, Proof("orthonormal_basis", words, None, None, d, 0), None)
    lines = smallest_set(k, d)
    epsilon = lines.largest_cosine()
    words = (
        f"every inner product of two of the {lines.count:,} lines is an entry of a Walsh–Hadamard transform of the "
        f"difference of two quadratic forms; {lines.transforms:,} transforms, one of each class under scaling, "
        f"have no entry above {epsilon:g} · 2^{lines.m}"
    )
    proof = Proof("walsh_hadamard", words, lines.m, lines.terms, lines.count, lines.transforms)
    return ExplicitLines(k, d, epsilon, proof, lines)


def smallest_set(k: int, d: int) -> LineSet:
    """The set of at least k lines with the smallest ε, of several the one that takes least to prove.

    Examples
    --------
    >>> found = smallest_set(4_194_304, 2048)
    >>> found.m, found.terms, found.epsilon
    (11, 1, 0.03125)
    """
    sets = [
        LineSet(dim=d, m=m, terms=terms)
        for m in range(2, min(d.bit_length() - 1, LARGEST_DEGREE) + 1)
        for terms in range(1, m // 2 + 1)
    ]
    enough = [lines for lines in sets if lines.count >= k]
    if not enough:
        most = max([lines.count for lines in sets] + [d])
        raise TooFewLines(
            f"no explicit set known here has {k:,} lines in {d:,} dimensions; the largest has {most:,}",
            hint="ask for fewer vectors or more dimensions, or for method 'optimized'",
        )
    return min(enough, key=lambda lines: (lines.epsilon, lines.transforms))
