"""Independent ways to the same numbers: every pair formed, in float64, with NumPy alone."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AllPairs:
    mean: float
    std: float
    mean_square: float
    epsilon: float
    row_mean: np.ndarray
    row_square: np.ndarray
    se_mean: float
    se_std: float
    se_epsilon: float


def unit(W: np.ndarray) -> np.ndarray:
    W = np.asarray(W, np.float64)
    W = W / np.abs(W).max(axis=1, keepdims=True)
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def cosines(W: np.ndarray) -> np.ndarray:
    """The n(n−1) ordered off-diagonal cosines, one row a row."""
    n = len(W)
    C = unit(W) @ unit(W).T
    return C[~np.eye(n, dtype=bool)].reshape(n, n - 1)


def all_pairs(W: np.ndarray) -> AllPairs:
    C = cosines(W)
    n, mean, std = len(C), C.mean(), C.std()
    p = C.mean(axis=1) - mean
    centred_square = ((C - mean) ** 2).mean(axis=1)  # σ² written about the mean: its projection needs no μ term
    on_std = (centred_square - std**2) / std
    root = np.sqrt(n)
    return AllPairs(
        mean=mean,
        std=std,
        mean_square=(C**2).mean(),
        epsilon=mean + 2 * std,
        row_mean=C.mean(axis=1),
        row_square=(C**2).mean(axis=1),
        se_mean=2 * p.std(ddof=1) / root,
        se_std=on_std.std(ddof=1) / root,
        se_epsilon=(2 * p + 2 * on_std).std(ddof=1) / root,
    )


def feature_dimensionality(W: np.ndarray) -> np.ndarray:
    W = np.asarray(W, np.float64)
    return (W**2).sum(axis=1) / ((unit(W) @ W.T) ** 2).sum(axis=1)
