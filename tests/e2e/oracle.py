"""ε the slow way: all rows in float64, the Gram matrix in one piece."""

import numpy as np
import numpy.typing as npt


def epsilon(matrix: npt.NDArray[np.float64]) -> float:
    """μ + 2σ over all pairs of distinct rows, of the values as stored."""
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    n = len(unit)
    mean = (np.square(unit.sum(axis=0)).sum() - n) / (n * (n - 1))
    mean_square = (np.square(unit.T @ unit).sum() - n) / (n * (n - 1))
    return float(mean + 2 * np.sqrt(mean_square - mean**2))
