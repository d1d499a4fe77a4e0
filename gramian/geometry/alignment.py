"""How alike a token's two vectors are: the cosine of its row in the input and in the output embedding.

Of interest where the two are separate matrices. Source: A. Guha, arXiv:2606.02765, App. C.
"""

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from gramian.errors import GeometryError
from gramian.geometry.rows import Block, RowBlocks, unit_rows

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True)
class Alignment:
    """The cosine of each token's two vectors, over the tokens that have a direction in both matrices.

    Attributes
    ----------
    tokens : int
        How many those are.
    mean, std : float
        Over the tokens.
    quantiles : tuple of (level, cosine)
        The cosine that so large a share of the tokens does not exceed.
    """

    tokens: int
    mean: float
    std: float
    quantiles: tuple[tuple[float, float], ...]


def alignment(first: RowBlocks, second: RowBlocks, *, dim: int) -> Alignment:
    """Compare two matrices row by row, in one pass over both.

    Parameters
    ----------
    first, second : RowBlocks
        Two matrices (n, d), cut into blocks at the same rows.
    dim : int
        Number of columns d.

    Raises
    ------
    GeometryError
        If no row has a direction in both.

    Examples
    --------
    >>> W = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> found = alignment([W], [-3 * W], dim=2)
    >>> found.tokens, found.mean
    (2, -1.0)
    """
    cosines = torch.cat([_cosines(one, other, dim) for one, other in zip(first, second, strict=True)])
    cosines = cosines[~cosines.isnan()].sort().values
    tokens = len(cosines)
    if not tokens:
        raise GeometryError("no row has a direction in both matrices")
    ranks = [ceil(level * tokens) - 1 for level in QUANTILES]
    return Alignment(
        tokens=tokens,
        mean=float(cosines.mean()),
        std=float(cosines.std(correction=0)),
        quantiles=tuple((level, float(cosines[rank])) for level, rank in zip(QUANTILES, ranks, strict=True)),
    )


def _cosines(one: Block, other: Block, dim: int) -> Tensor:
    """Of the rows of two blocks, (b,) float64; NaN where either has no direction."""
    return (_directions(one, dim) * _directions(other, dim)).sum(dim=1).clamp(-1, 1).cpu()


def _directions(block: Block, dim: int) -> Tensor:
    """Unit rows in float64, (b, d); NaN for rows that are zero or not finite."""
    found = torch.full(tuple(block.shape), torch.nan, dtype=torch.float64)
    for chunk in unit_rows([block], dim=dim, dtype=torch.float64):
        found[chunk.index.cpu()] = chunk.unit.cpu()
    return found
