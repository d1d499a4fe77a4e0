"""Looking at pairs of rows, where the question asks for it."""

from collections.abc import Callable

import torch

from gramian.geometry.measurement import MatrixGeometry
from gramian.geometry.pairs import PairStatistics, exact_pairs, sampled_pairs
from gramian.specs import PairChoice
from workers.devices import Matrix, row_range_on


def pairs_to_see(choice: PairChoice | None, pairs: int) -> int:
    """How many of a matrix's pairs will be looked at."""
    if choice is None:
        return 0
    return pairs if choice.mode == "exact" else min(pairs, choice.samples)


def look_at_pairs(
    choice: PairChoice | None,
    matrix: Matrix,
    geometry: MatrixGeometry,
    device: torch.device,
    progress: Callable[[float], None],
) -> PairStatistics | None:
    """The cosine over the pairs asked for; over all of them where a draw would be as many."""
    if choice is None:
        return None
    read, products = row_range_on(device, matrix), getattr(torch, geometry.products)
    if pairs_to_see(choice, geometry.moments.pairs) == geometry.moments.pairs:
        return exact_pairs(
            read, rows=matrix.rows, dim=matrix.dim, bins=choice.bins, products=products, progress=progress
        )
    return sampled_pairs(
        read,
        used_rows=geometry.census.used_rows,
        dim=matrix.dim,
        samples=choice.samples,
        seed=choice.seed,
        bins=choice.bins,
        products=products,
        progress=progress,
    )
