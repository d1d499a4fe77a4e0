"""The sparse training step is the dense one by autograd; training does what the paper describes."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from gramian.errors import GeometryError
from gramian.geometry.frequencies import PowerLaw, activation_probabilities
from gramian.geometry.sparse_features import SparseBatch, SparseSampler
from gramian.geometry.toy_model import ToyModel, backpropagate, decay_, learning_rate_factor, train_toy_model
from gramian.geometry.toy_study import TrainingPlan


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def plan(**changed):
    return TrainingPlan(**{"steps": 60, "warmup_steps": 6, "batch": 128, **changed})


# -- one step -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [0.2, 1.0, 4.0])
def test_gradients_and_loss_are_those_of_autograd_on_dense_samples(density):
    n, m, samples = 60, 7, 300
    p = activation_probabilities(PowerLaw(1.0), n, density=density)
    model = ToyModel(n, m, bias_std=1.0, generator=seeded()).double()
    batch = SparseSampler(p, seeded(1)).draw(samples)
    batch = SparseBatch(samples, batch.sample, batch.feature, batch.value.double())
    loss = backpropagate(model, batch, torch.empty(samples, n, dtype=torch.float64))
    found = model.W.grad.clone(), model.b.grad.clone()
    model.zero_grad()

    x = torch.zeros(samples, n, dtype=torch.float64)
    x[batch.sample, batch.feature] = batch.value
    expected = torch.nn.functional.mse_loss(model(x), x)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(found, (model.W.grad, model.b.grad))


def test_a_batch_in_which_nothing_is_active_teaches_the_bias_alone():
    model = ToyModel(5, 2, bias_std=1.0, generator=seeded())
    nothing = torch.zeros(0, dtype=torch.int64)
    loss = backpropagate(model, SparseBatch(8, nothing, nothing, torch.zeros(0)), torch.empty(8, 5))
    b = model.b.detach()
    assert float(loss) == pytest.approx(float(b.relu().square().mean()))
    assert torch.equal(model.W.grad, torch.zeros(5, 2))
    torch.testing.assert_close(model.b.grad, b.relu() * 2 / 5)


def test_positive_decay_is_that_of_adamw():
    ours = torch.randn(6, 3, generator=seeded())
    theirs = torch.nn.Parameter(ours.clone())
    theirs.grad = torch.zeros_like(theirs)
    torch.optim.AdamW([theirs], lr=0.01, weight_decay=0.7).step()
    decay_(ours, weight_decay=0.7, learning_rate=0.01)
    torch.testing.assert_close(ours, theirs.detach())


def test_negative_decay_pulls_norms_to_one_and_keeps_directions():
    W = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.6, 0.8], [0.0, 0.0]])
    decay_(W, weight_decay=-2.0, learning_rate=0.1)
    # ‖W‖ ← ‖W‖ + ηγ(‖W‖ − 1): 5 − 0.2·4, 0.5 + 0.2·0.5, 1, and no direction to grow in
    torch.testing.assert_close(W, torch.tensor([[2.52, 3.36], [0.36, 0.48], [0.6, 0.8], [0.0, 0.0]]))


def test_no_decay_leaves_weights_alone():
    W = torch.randn(4, 2, generator=seeded())
    before = W.clone()
    decay_(W, weight_decay=0.0, learning_rate=0.1)
    assert torch.equal(W, before)


def test_the_learning_rate_rises_linearly_and_falls_by_half_a_cosine():
    factors = [learning_rate_factor(s, steps=20_000, warmup_steps=2_000) for s in range(20_000)]
    assert factors[:2000] == pytest.approx([(s + 1) / 2000 for s in range(2000)])
    assert factors[10_999] == pytest.approx(0.525)  # half way down
    assert factors[-1] == pytest.approx(0.05)
    assert max(factors) == 1
    assert learning_rate_factor(0, steps=10, warmup_steps=0) < 1  # without warm-up the fall starts at once


# -- training -------------------------------------------------------------------------------------------------

P = activation_probabilities(PowerLaw(1.5), 60)


def dense_training(p, dims, weight_decay, plan, seed):
    """The published way, for the loss alone: dense samples, autograd, Adam, decay before the step."""
    generator = seeded(seed)
    n = len(p)
    W = (torch.randn(n, dims, generator=generator) / math.sqrt(dims)).requires_grad_()
    b = torch.randn(n, generator=generator).requires_grad_()
    adam = torch.optim.Adam([W, b])
    probabilities, losses = torch.from_numpy(p).float(), []
    for step in range(plan.steps):
        done = step + 1
        if done < plan.warmup_steps:
            lr = plan.learning_rate * done / plan.warmup_steps
        else:
            turn = math.pi * (done - plan.warmup_steps) / (plan.steps - plan.warmup_steps)
            lr = plan.learning_rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(turn)))
        adam.param_groups[0]["lr"] = lr
        x = (torch.rand(plan.batch, n, generator=generator) < probabilities) * 2.0
        x = x * torch.rand(plan.batch, n, generator=generator)
        adam.zero_grad()
        loss = torch.nn.functional.mse_loss(torch.relu(x @ W @ W.T + b), x)
        loss.backward()
        with torch.no_grad():
            if weight_decay >= 0:
                W -= lr * weight_decay * W
            else:
                W += lr * weight_decay * W * (1 - 1 / W.norm(dim=1, keepdim=True))
        adam.step()
        losses.append(n * loss.item())
    return losses


@pytest.mark.parametrize("weight_decay", [-1.0, 1.0])
def test_the_loss_curve_is_that_of_dense_training_in_distribution(weight_decay):
    steps = plan(steps=150, warmup_steps=15)
    seeds = range(10)
    ours = [
        train_toy_model(P, 6, weight_decay=weight_decay, plan=steps, generator=seeded(s)).losses.tolist() for s in seeds
    ]
    theirs = [dense_training(P, 6, weight_decay, steps, s) for s in seeds]  # from the same starts, by other samples
    # the start, the fall and the end of the curve, each as ten values against ten, and pair by pair
    for stretch in (slice(0, 10), slice(40, 60), slice(120, 150)):
        a, b = (np.mean([curve[stretch] for curve in curves], axis=1) for curves in (ours, theirs))
        assert stats.ks_2samp(a, b).pvalue > 0.005, (stretch, a, b)
        assert abs(np.log(a / b).mean()) < 0.03


def test_the_same_generator_trains_the_same_model():
    first, again, other = (
        train_toy_model(P, 4, weight_decay=-1.0, plan=plan(steps=5, warmup_steps=1), generator=seeded(s))
        for s in (3, 3, 4)
    )
    assert torch.equal(first.model.W, again.model.W)
    assert torch.equal(first.losses, again.losses)
    assert not torch.equal(first.model.W, other.model.W)


def test_progress_may_end_the_training():
    told = []

    def stop_at_three(done):
        told.append(done)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_toy_model(P, 4, weight_decay=1.0, plan=plan(), generator=seeded(), progress=stop_at_three)
    assert told == [1, 2, 3]


def test_a_reference_width_slows_wider_models_as_published():
    large = TrainingPlan(learning_rate=0.02, bias_learning_rate=0.25, reference_width=8)
    assert large.learning_rates(8) == pytest.approx((0.02, 2 / 8))
    assert large.learning_rates(1024) == pytest.approx((0.02 * (8 / 1024) ** 0.25, 2 / 1024))
    assert TrainingPlan().learning_rates(512) == (1e-2, 1e-2)


def test_a_zero_bias_start_starts_at_zero():
    assert torch.equal(ToyModel(5, 2, bias_std=0.0, generator=seeded()).b, torch.zeros(5))


@pytest.mark.parametrize("changed", [{"steps": 0}, {"batch": 0}, {"warmup_steps": 60}, {"warmup_steps": -1}])
def test_impossible_plans_are_refused(changed):
    with pytest.raises(GeometryError, match="at least one step"):
        plan(**changed)


@pytest.mark.parametrize(("dims", "weight_decay"), [(0, 1.0), (3, float("nan")), (3, float("inf"))])
def test_impossible_models_are_refused(dims, weight_decay):
    with pytest.raises(GeometryError):
        train_toy_model(P, dims, weight_decay=weight_decay, plan=plan(), generator=seeded())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_training_on_cuda_learns_what_training_on_the_cpu_learns():
    steps = plan(steps=400, warmup_steps=40)
    on_cpu = train_toy_model(P, 6, weight_decay=-1.0, plan=steps, generator=seeded())
    on_cuda = train_toy_model(P, 6, weight_decay=-1.0, plan=steps, generator=torch.Generator("cuda").manual_seed(0))
    assert on_cuda.model.W.is_cuda
    assert float(on_cuda.losses[-50:].mean()) == pytest.approx(float(on_cpu.losses[-50:].mean()), rel=0.2)
