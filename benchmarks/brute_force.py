"""ε from every pair, the two ways without a Gram matrix; written to be read, and to be as fast as their idea allows.

Unit rows u_i, n of them in d dimensions; all n(n−1)/2 cosines u_i·u_j, i < j; ε = μ + 2σ.
"""

import time
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt
import torch

BINS = 400
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

    The steps of A. Guha, arXiv:2606.02765, for a matrix whose n×n product fits; both cores multiply. 4n² + 2n² bytes.
    """
    started = time.perf_counter()
    U = torch.nn.functional.normalize(torch.from_numpy(W))  # (n, d)
    n = len(U)
    product = (U @ U.T).numpy()  # (n, n)
    cosines = np.empty(n * (n - 1) // 2, np.float32)  # row after row of the strict upper triangle
    end = 0
    for i in range(n):
        start, end = end, end + n - 1 - i
        cosines[start:end] = product[i, i + 1 :]
    del product
    collected = time.perf_counter()
    counts, _ = np.histogram(cosines, bins=BINS)
    counted = time.perf_counter()
    mean, std = float(cosines.mean()), float(cosines.std())
    ended = time.perf_counter()
    steps = {"cosines": collected - started, "histogram": counted - collected, "mean and std": ended - counted}
    return BruteForce(int(counts.sum()), mean, std, steps)


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
