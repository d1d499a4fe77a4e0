"""Which rows of the matrices an analysis leaves out, and what the others are called."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gramian.errors import GeometryError, RowsUndeterminable
from gramian.geometry.hygiene import RowNumbers, WithoutRows, duplicate_rows, rows_like, short_rows
from gramian.geometry.rows import RowBlocks, unit_rows
from gramian.specs import EmbeddingSpec
from gramian.weights.sources import WeightSource
from gramian.weights.tensors import StoredMatrix
from gramian.weights.tokenizers import Tokens, read_tokens
from gramian.weights.vocabulary import Role, Vocabulary
from workers.devices import BLOCK_BYTES

Norms = npt.NDArray[np.float64]

NONE: RowNumbers = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows of one matrix that are not measured, by the reason; no row has two."""

    by_reason: Mapping[str, RowNumbers]
    basis: Mapping[str, str]
    """How each reason was determined, in words."""

    @property
    def rows(self) -> RowNumbers:
        return np.sort(np.concatenate([NONE, *self.by_reason.values()]))


NOTHING = LeftOut({}, {})


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """A stored matrix whose unwanted rows read as zeros: every measure leaves those out, and counts the others."""

    matrix: StoredMatrix
    left_out: RowNumbers

    @property
    def rows(self) -> int:
        return self.matrix.rows

    @property
    def dim(self) -> int:
        return self.matrix.dim

    def blocks(self, rows_per_block: int, *, start: int = 0, stop: int | None = None) -> RowBlocks:
        stored = self.matrix.blocks(rows_per_block, start=start, stop=stop)
        return WithoutRows(stored, self.left_out, start) if len(self.left_out) else stored


def wanted_tokens(spec: EmbeddingSpec, source: WeightSource, vocabulary: Vocabulary) -> Tokens | None:
    """The tokens, where the question needs them."""
    exclude = spec.rows.exclude if spec.rows else ()
    by_reference = "untrained" in exclude and vocabulary.tying.finding != "untied" and spec.source.type != "upload"
    return read_tokens(source) if spec.token_names or "padding" in exclude or by_reference else None


def rows_left_out(spec: EmbeddingSpec, vocabulary: Vocabulary, tokens: Tokens | None) -> Mapping[Role, LeftOut]:
    """What is left out of each matrix, by its role, of the rows that have a direction.

    Raises
    ------
    RowsUndeterminable
        Untrained rows were to be left out, and cannot be told from the others.
    """
    exclude = spec.rows.exclude if spec.rows else ()
    untrained: tuple[RowNumbers, str] | None = None
    found: dict[Role, LeftOut] = {}
    for role, matrix in vocabulary.matrices if exclude else ():
        norms = _norms(matrix)
        by_reason: dict[str, RowNumbers] = {}
        basis: dict[str, str] = {}
        if "padding" in exclude and tokens is not None:
            by_reason["padding"] = np.arange(min(tokens.rows, matrix.rows), matrix.rows)
            basis["padding"] = f"{tokens.file} has ids up to {tokens.rows - 1:,}, the matrix {matrix.rows:,} rows"
        if "untrained" in exclude:
            untrained = untrained or _untrained(vocabulary, matrix, norms, tokens)  # of the input, if there are two
            by_reason["untrained"], basis["untrained"] = untrained
        if "duplicates" in exclude:
            others = np.sort(np.concatenate([NONE, *by_reason.values()]))
            by_reason["duplicates"] = duplicate_rows(_blocks(matrix), without=others)
            basis["duplicates"] = "equal to an earlier row that is kept"
        left = np.flatnonzero(norms > 0)
        for reason, rows in by_reason.items():  # no row is counted twice
            by_reason[reason] = np.intersect1d(rows, left)
            left = np.setdiff1d(left, rows)
        found[role] = LeftOut(by_reason, basis)
    return found


def _untrained(
    vocabulary: Vocabulary, matrix: StoredMatrix, norms: Norms, tokens: Tokens | None
) -> tuple[RowNumbers, str]:
    finding = vocabulary.tying.finding
    if finding == "untied":
        return short_rows(norms), "norms below a jump by a factor of two, in an input embedding with a head of its own"
    if tokens is None:
        raise RowsUndeterminable(
            f"without a separate head ({finding}) untrained rows are told by their likeness to tokens that are known "
            "to be unused, and an uploaded file has no tokenizer beside it",
            hint="analyse a folder or a Hub model that has its tokenizer, or leave 'untrained' out",
        )
    references = np.union1d(tokens.unused, np.arange(tokens.rows, matrix.rows)).astype(np.int64)
    try:
        rows = rows_like(_blocks(matrix), references[references < matrix.rows], dim=matrix.dim)
    except GeometryError as error:
        raise RowsUndeterminable(f"untrained rows of {matrix.name} cannot be told: {error.message}") from None
    return rows, f"near the mean of the rows that {tokens.file} has no use for, those included"


def _norms(matrix: StoredMatrix) -> Norms:
    """Of all rows, (n,); 0 where a row has no direction."""
    norms = np.zeros(matrix.rows)
    for chunk in unit_rows(_blocks(matrix), dim=matrix.dim, dtype=torch.float32):
        norms[chunk.index.numpy()] = chunk.norms.numpy()
    return norms


def _blocks(matrix: StoredMatrix) -> RowBlocks:
    return matrix.blocks(max(1, BLOCK_BYTES["cpu"] // (4 * matrix.dim)))
