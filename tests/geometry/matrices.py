"""Matrices whose rows are spread in the ways that real vocabularies are."""

import numpy as np


def isotropic(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def anisotropic(n: int, d: int, seed: int = 0) -> np.ndarray:
    scales = np.linspace(3, 0.05, d)
    return isotropic(n, d, seed) * scales + scales[::-1]


def clustered(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((5, d))[rng.integers(5, size=n)] * 2 + 0.3 * rng.standard_normal((n, d))


def low_rank(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))


def nearly_parallel(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Mean cosine 0.998 with a spread of about 5e-4."""
    rng = np.random.default_rng(seed)
    spread = 0.0447 * np.exp(0.12 * rng.standard_normal((n, 1)))
    return np.full((n, d), 1 / np.sqrt(d)) + spread * rng.standard_normal((n, d)) / np.sqrt(d)


def simplex(d: int) -> np.ndarray:
    """d + 1 unit vectors in d dimensions, any two at cosine −1/d."""
    centred = np.eye(d + 1) - 1 / (d + 1)
    vectors, values, _ = np.linalg.svd(centred)
    return vectors[:, :d] * values[:d]


FAMILIES = {f.__name__: f for f in (isotropic, anisotropic, clustered, low_rank, nearly_parallel)}
