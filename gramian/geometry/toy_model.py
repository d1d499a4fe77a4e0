"""The toy model of superposition, and its training.

    y = ReLU(x W Wᵀ + b)        W ∈ R^{n×m}, b ∈ R^n        L = ‖y − x‖², averaged over samples

n features go through m < n dimensions and back. Row W_i is the direction of feature i. A weight decay γ on W sets the
degree of superposition: γ > 0 shrinks all rows and leaves only the most frequent features represented; γ < 0 pulls
every row toward unit norm, so that all features are represented and overlap.

x is almost all zeros (`sparse_features`). Of a training step only three products with n·m multiplications a sample
are left, W hᵀ and two in the gradient, and those only for samples in which a feature is active: in all others h = 0
and y = ReLU(b).

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §2, and its code, liuyz0/SuperpositionScaling, for what the paper
leaves out: what the optimiser minimises is L/n, the mean over samples and features, which matters to Adam through
its ε alone; the decay acts before Adam's step, at the step's own learning rate, on W and not on b.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, isfinite, pi, sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, normalize

from gramian.errors import GeometryError
from gramian.geometry.frequencies import Vector
from gramian.geometry.sparse_features import SparseBatch, SparseSampler
from gramian.geometry.toy_study import TrainingPlan

# -- the model ------------------------------------------------------------------------------------------------


class ToyModel(nn.Module):
    """y = ReLU(x W Wᵀ + b), started at W ~ N(0, 1/m), b ~ N(0, bias_std²) on the generator's device."""

    def __init__(self, features: int, dims: int, *, bias_std: float, generator: torch.Generator) -> None:
        super().__init__()

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, device=generator.device)

        self.W = nn.Parameter(normal(features, dims) / sqrt(dims))  # (n, m)
        self.b = nn.Parameter(normal(features) * bias_std)  # (n,)

    def forward(self, x: Tensor) -> Tensor:
        """Reconstruct dense samples, (B, n) → (B, n)."""
        return torch.relu(x @ self.W @ self.W.T + self.b)


# -- one step -------------------------------------------------------------------------------------------------


@torch.no_grad()
def backpropagate(model: ToyModel, batch: SparseBatch, scratch: Tensor) -> Tensor:
    """Set the gradients of L/n on a batch, and return L/n, a scalar on the model's device.

    With r = y − x and g = r ⊙ [y > 0] (the ReLU lets nothing through elsewhere), up to the factor 2/(B·n),

        ∂W = gᵀh + xᵀ(gW)        ∂b = Σ g over samples        h = xW

    Parameters
    ----------
    model : ToyModel
        Whose `.grad` are set, not added to.
    batch : SparseBatch
        B samples.
    scratch : (B, n) float32 tensor
        Overwritten. Fresh memory of this size would cost more than what is done with it.
    """
    W, b = model.W, model.b  # (n, m), (n,)
    n, features, values = len(b), batch.feature, batch.value  # (k,) each
    _, row, active = torch.unique_consecutive(batch.sample, return_inverse=True, return_counts=True)
    rows, empty = len(active), batch.samples - len(active)  # samples with and without an active feature

    h = embedding_bag(features, W, active.cumsum(0) - active, mode="sum", per_sample_weights=values)  # (rows, m)
    g = torch.addmm(b, h, W.T, out=scratch[:rows]).relu_()  # (rows, n): y, about to become g
    y_empty = b.relu()  # (n,): y, r and g of every empty sample

    at = row * n + features  # where x is not zero
    y_active = g.view(-1)[at]  # (k,)
    passes = y_active > 0
    g.view(-1)[at] = torch.where(passes, y_active - values, 0.0)
    held_back = torch.where(passes, 0.0, values)  # r = −v where y = 0: in the loss, not in the gradient
    loss = _square_sum(g) + _square_sum(held_back) + empty * _square_sum(y_empty)

    scale = 2 / (batch.samples * n)
    grad_W = g.T @ h  # (n, m)
    grad_W.index_add_(0, features, (g @ W)[row] * values[:, None])
    W.grad = grad_W.mul_(scale)
    b.grad = (g.sum(0) + empty * y_empty).mul_(scale)
    return loss / (batch.samples * n)


def _square_sum(t: Tensor) -> Tensor:
    flat = t.view(-1)
    return torch.dot(flat, flat)


@torch.no_grad()
def decay_(W: Tensor, *, weight_decay: float, learning_rate: float) -> None:
    """Decoupled weight decay, in place, with w = η|γ|.

    γ ≥ 0:  W_i ← W_i − w·W_i                    toward zero
    γ < 0:  W_i ← W_i − w·(W_i − W_i/‖W_i‖)      toward unit norm, where plain growth would have no end

    `torch.optim.AdamW` does the first and refuses the second.
    """
    if weight_decay >= 0:
        W.mul_(1 - learning_rate * weight_decay)
    else:
        W.lerp_(normalize(W), -learning_rate * weight_decay)


def learning_rate_factor(step: int, *, steps: int, warmup_steps: int, floor: float = 0.05) -> float:
    """Share of the peak learning rate at a step, 0 ≤ step < steps: a linear rise, then half a cosine down to 5 %.

    Examples
    --------
    >>> [round(learning_rate_factor(s, steps=100, warmup_steps=10), 3) for s in (0, 9, 54, 99)]
    [0.1, 1.0, 0.525, 0.05]
    """
    done = step + 1
    if done < warmup_steps:
        return done / warmup_steps
    fallen = (done - warmup_steps) / (steps - warmup_steps)
    return floor + (1 - floor) * (1 + cos(pi * fallen)) / 2


# -- training -------------------------------------------------------------------------------------------------

Progress = Callable[[int], None]
"""Told how many steps are done. An exception that it raises ends the training."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model and its loss at every step.

    Attributes
    ----------
    model : ToyModel
        After the last step.
    losses : (steps,) float32 tensor
        L, the summed squared error of a sample averaged over the step's batch, on the model's device.
    """

    model: ToyModel
    losses: Tensor


def train_toy_model(
    p: Vector,
    dims: int,
    *,
    weight_decay: float,
    plan: TrainingPlan,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> Trained:
    """Train a toy model in float32 by Adam with decoupled weight decay.

    Parameters
    ----------
    p : (n,) array
        Activation probabilities, falling; see `frequencies.activation_probabilities`.
    dims : int
        Hidden dimensions m ≥ 1.
    weight_decay : float
        γ, either sign.
    plan : TrainingPlan
        Steps, batch, learning rates.
    generator : torch.Generator
        Randomness of the start and of the samples. Training runs on its device, CPU or CUDA.
    progress : Progress, optional
        Called after every step.

    Raises
    ------
    GeometryError
        For fewer than one dimension, and a weight decay that is not finite.
    """
    if dims < 1:
        raise GeometryError(f"a toy model has at least one hidden dimension, not {dims}")
    if not isfinite(weight_decay):
        raise GeometryError(f"the weight decay is finite; it is {weight_decay}")
    n = len(p)
    model = ToyModel(n, dims, bias_std=plan.bias_std, generator=generator)
    sampler = SparseSampler(p, generator)
    peaks = plan.learning_rates(dims)
    adam = torch.optim.Adam([{"params": [model.W]}, {"params": [model.b]}], eps=plan.adam_eps, fused=True)
    scratch = torch.empty(plan.batch, n, device=generator.device)
    losses = torch.empty(plan.steps, device=generator.device)

    for step in range(plan.steps):
        factor = learning_rate_factor(step, steps=plan.steps, warmup_steps=plan.warmup_steps)
        for group, peak in zip(adam.param_groups, peaks, strict=True):
            group["lr"] = peak * factor
        losses[step] = n * backpropagate(model, sampler.draw(plan.batch), scratch)
        decay_(model.W, weight_decay=weight_decay, learning_rate=peaks[0] * factor)
        adam.step()
        if progress is not None:
            progress(step + 1)
    return Trained(model, losses)
