"""How often each feature is active: laws over n features, and the tail sums that the theory of the toy model needs.

Feature i is active in a sample with probability p_i, features numbered by falling frequency. A law gives the shape
p_i ∝ w_i; the activation density E = Σ p_i, the mean number of active features in a sample, gives the scale.

No torch: the HTTP edge computes with these as well.

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §2; they write p_i ∝ 1/i^α.
"""

from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from gramian.errors import GeometryError

Vector = npt.NDArray[np.float64]

# -- laws -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerLaw:
    """w_i = i^{−exponent}; 0 makes all features equally frequent."""

    exponent: float

    def weights(self, features: int) -> Vector:
        return _ranks(features) ** -self.exponent


@dataclass(frozen=True)
class ExponentialLaw:
    """w_i = e^{−(i−1)/scale}; the paper has scale 1000 at n = 10,240, and 400."""

    scale: float

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise GeometryError(f"the scale of an exponential law is positive; it is {self.scale}")

    def weights(self, features: int) -> Vector:
        return np.exp((1 - _ranks(features)) / self.scale)


@dataclass(frozen=True)
class LinearLaw:
    """w_i = 1 − (i−1)/n, falling to 1/n for the last feature."""

    def weights(self, features: int) -> Vector:
        return 1 - (_ranks(features) - 1) / features


@dataclass(frozen=True)
class ListedLaw:
    """Weights given one by one, such as the token counts of a corpus, in any order."""

    values: tuple[float, ...]

    def weights(self, features: int) -> Vector:
        if len(self.values) != features:
            raise GeometryError(f"{features} features need as many frequencies; {len(self.values)} are listed")
        return np.sort(np.asarray(self.values, np.float64))[::-1]


FrequencyLaw = PowerLaw | ExponentialLaw | LinearLaw | ListedLaw


def activation_probabilities(law: FrequencyLaw, features: int, *, density: float = 1.0) -> Vector:
    """p_i for i = 1 … n, falling, with Σ p_i = density.

    Parameters
    ----------
    law : FrequencyLaw
        The shape.
    features : int
        n ≥ 1.
    density : float
        Mean number of active features in a sample, E > 0.

    Returns
    -------
    (n,) float64 array

    Raises
    ------
    GeometryError
        For weights that are negative, not finite, rising or all zero, and for a density that makes a probability
        exceed 1.

    Examples
    --------
    >>> activation_probabilities(PowerLaw(1.0), 3).round(3).tolist()
    [0.545, 0.273, 0.182]
    >>> activation_probabilities(LinearLaw(), 2, density=1.5).tolist()
    [1.0, 0.5]
    """
    if features < 1:
        raise GeometryError(f"a toy model has at least one feature, not {features}")
    if not (density > 0 and isfinite(density)):
        raise GeometryError(f"the activation density is positive and finite; it is {density}")
    weights = law.weights(features)
    total = weights.sum()
    if not np.isfinite(weights).all() or (weights < 0).any() or not (total > 0 and isfinite(total)):
        raise GeometryError("frequencies are finite, not negative and not all zero")
    if weights[0] < weights[-1]:
        raise GeometryError("features are numbered by falling frequency; this law rises")
    p: Vector = weights / total * density
    if p[0] > 1 + 1e-12:
        raise GeometryError(
            f"at density {density:g} the most frequent feature would be active with probability {p[0]:.4g}",
            hint=f"the largest density of this law is {total / weights[0]:.6g}",
        )
    return np.minimum(p, 1.0)


def tail_sum(p: Vector, start: int) -> float:
    """Σ_{i>start} p_i: how many features beyond the first `start` are active in a sample, on average.

    Examples
    --------
    >>> tail_sum(activation_probabilities(PowerLaw(0.0), 8), 6)
    0.25
    """
    return float(p[start:].sum())


def steepness(p: Vector, ranks: int) -> float:
    """How fast frequencies fall over the first ranks, as an exponent: −d ln p / d ln i between ranks 1 and `ranks`.

    The exponent itself for a power law; of any other law, that of the power law through the same two points.

    Examples
    --------
    >>> round(steepness(activation_probabilities(PowerLaw(1.5), 1000), 40), 6)
    1.5
    """
    if not 1 < ranks <= len(p):
        raise GeometryError(f"a slope lies between rank 1 and a later one of {len(p)}, not rank {ranks}")
    if p[ranks - 1] == 0:
        return float("inf")
    return float(np.log(p[0] / p[ranks - 1]) / np.log(ranks))


def _ranks(features: int) -> Vector:
    return np.arange(1, features + 1, dtype=np.float64)
