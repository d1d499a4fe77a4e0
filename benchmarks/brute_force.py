"""ε from every pair, the two ways without a Gram matrix; written to be read, and to be as fast as their idea allows.

Unit rows u_i, n of them in d dimensions; all n(n−1)/2 cosines u_i·u_j, i < j; ε = μ + 2σ.
"""

import time
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt
import torch

BINS = 300  # as published
BLOCK_ROWS = 1024

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class BruteForce:
    """What comes out, and the seconds that each step took."""

    pairs: int
    mean: float
    std: float
    seconds: dict[str, float]

    @property
    def epsilon(self) -> float:
        return self.mean + 2 * self.std


def published_way(W: Matrix) -> BruteForce:
    """All pairs in memory: one n×n product, its upper triangle, a histogram, mean and standard deviation.

    The steps of A. Guha, arXiv:2606.02765, and of its code for a matrix whose n×n product fits: the histogram looks
    every cosine up among the bins' edges, a share of them at a time. All cores work. 4n² + 2n² bytes.
    """
    started = time.perf_counter()
    U = torch.nn.functional.normalize(torch.from_numpy(W))  # (n, d)
    product = U @ U.T  # (n, n)
    cosines = torch.cat([row[i + 1 :] for i, row in enumerate(product)])  # (n(n-1)/2,)
    del product
    collected = time.perf_counter()
    counts = looked_up_histogram(cosines)
    counted = time.perf_counter()
    mean, std = float(cosines.mean()), float(cosines.std())
    ended = time.perf_counter()
    steps = {"cosines": collected - started, "histogram": counted - collected, "mean and std": ended - counted}
    return BruteForce(int(counts.sum()), mean, std, steps)


def looked_up_histogram(values: torch.Tensor) -> torch.Tensor:
    """How many values lie in each of 300 equal bins between the least and the largest, (bins,) int64."""
    edges = torch.linspace(float(values.min()), float(values.max()), BINS + 1)
    counts = torch.zeros(BINS, dtype=torch.int64)
    for share in torch.split(values, max(1, len(values) // (10 * BINS))):
        bins = torch.bucketize(share, edges).sub_(1).clamp_(0, BINS - 1)
        counts += torch.bincount(bins, minlength=BINS)
    return counts


def block_by_block(W: Matrix) -> BruteForce:
    """Moments alone: products of a block of rows with the rows from it on, summed up at once, none of them kept."""
    started = time.perf_counter()
    U = torch.nn.functional.normalize(torch.from_numpy(W))  # (n, d)
    n, total, total_square = len(U), 0.0, 0.0
    for s in range(0, n, BLOCK_ROWS):
        block = U[s : s + BLOCK_ROWS]  # (m, d)
        m = len(block)
        product = block @ U[s:].T  # (m, n - s); its first m columns hold pairs within the block
        product[:, :m].triu_(diagonal=1)
        total += float(product.sum(dim=1).sum(dtype=torch.float64))
        total_square += float(torch.linalg.vecdot(product, product).sum(dtype=torch.float64))
    pairs = n * (n - 1) // 2
    mean = total / pairs
    std = sqrt(total_square / pairs - mean**2)
    return BruteForce(pairs, mean, std, {"cosines and sums": time.perf_counter() - started})
