"""Samples of features that are nearly all zero, as (sample, feature, value) triples.

x_i = u_i·v_i with u_i ~ Bernoulli(p_i), independent, and v_i ~ U(0, 2). With Σp ≈ 1 a dense batch is some 99.9 % zeros,
and drawing its n numbers a sample twice over takes longer than the model.

Source of the model of x: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.geometry.frequencies import Vector

LARGEST_VALUE = 2.0  # v ~ U(0, 2): mean 1
CERTAIN = 37.0  # hits expected of a feature with p = 1: e^−37 is below the resolution of float64


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """The k active features of a batch, by sample.

    Attributes
    ----------
    samples : int
        B, of which some may have no active feature.
    sample : (k,) int64 tensor
        Ascending.
    feature : (k,) int64 tensor
        Ascending within a sample; no pair occurs twice.
    value : (k,) float32 tensor
        In [0, 2).
    """

    samples: int
    sample: Tensor
    feature: Tensor
    value: Tensor

    def dense(self, features: int) -> Tensor:
        """x, (B, n)."""
        x = torch.zeros(self.samples, features, device=self.value.device)
        x[self.sample, self.feature] = self.value
        return x


class SparseSampler:
    """Draws batches with exactly independent Bernoulli(p_i) activations.

    A Poisson number of hits with mean λ_i = −ln(1 − p_i) falls into each cell (sample, i), independently; a cell is
    active if it was hit at all, with probability 1 − e^{−λ_i} = p_i. Hits are cheap: their total is Poisson, their
    feature is drawn in proportion to λ, their sample uniformly.

    Parameters
    ----------
    p : (n,) array
        Activation probabilities.
    generator : torch.Generator
        Where randomness comes from; its device is that of the batches.
    """

    def __init__(self, p: Vector, generator: torch.Generator) -> None:
        hits = torch.log1p(-torch.from_numpy(p)).neg_().clamp_(max=CERTAIN)  # (n,) λ_i; p = 1 gives infinity
        hits = hits.to(generator.device)
        self._generator = generator
        self._features = len(p)
        self._mean_hits = hits.sum()
        self._cumulative = hits.cumsum(0) / self._mean_hits  # float64: frequencies span many orders of magnitude

    def draw(self, samples: int) -> SparseBatch:
        """A batch of B samples."""
        n, generator, device = self._features, self._generator, self._generator.device
        hits = int(torch.poisson(samples * self._mean_hits, generator=generator))
        place = torch.rand(hits, dtype=torch.float64, generator=generator, device=device)
        feature = torch.searchsorted(self._cumulative, place).clamp_(max=n - 1)  # (hits,)
        sample = torch.randint(samples, (hits,), generator=generator, device=device)  # (hits,)
        cell = torch.unique(sample * n + feature)  # (k,), sorted; a cell hit twice is active once
        value = LARGEST_VALUE * torch.rand(len(cell), generator=generator, device=device)
        return SparseBatch(samples, cell // n, cell % n, value)
