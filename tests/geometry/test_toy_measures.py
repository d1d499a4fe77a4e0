"""What is read off a toy model, on models whose answers are known."""

import math

import numpy as np
import pytest
import torch

from gramian.geometry.baselines import welch_bound
from gramian.geometry.frequencies import PowerLaw, activation_probabilities
from gramian.geometry.superposition import represented_fraction
from gramian.geometry.toy_measures import (
    equiangularity,
    feature_losses,
    measure_toy_model,
    run_cell,
    split_norms,
)
from gramian.geometry.toy_model import ToyModel, Trained
from gramian.geometry.toy_study import ToyCell, TrainingPlan
from tests.geometry import oracles
from tests.geometry.matrices import isotropic, simplex


def trained(W, b=None, losses=(1.0,) * 200):
    n, m = W.shape
    model = ToyModel(n, m, bias_std=0.0, generator=torch.Generator())
    model.W.data = torch.as_tensor(W, dtype=torch.float32)
    if b is not None:
        model.b.data = torch.as_tensor(b, dtype=torch.float32)
    return Trained(model, torch.tensor(losses, dtype=torch.float32))


def measured(W, **given):
    return measure_toy_model(trained(W, **given), activation_probabilities(PowerLaw(1.5), len(W)))


def planted(n=200, m=10, represented=15, seed=0):
    """Rows of norm 1.0 ± 0.05 for every tenth feature or so, of norm about 0.05 for the others."""
    rng = np.random.default_rng(seed)
    W = isotropic(n, m, seed)
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    kept = np.zeros(n, dtype=bool)
    kept[rng.choice(n, represented, replace=False)] = True
    return W * np.where(kept, 1 + 0.05 * rng.standard_normal(n), 0.05)[:, None], kept


def test_a_planted_mixture_gives_the_planted_fraction():
    W, kept = planted()
    found = measured(W)
    assert (found.represented, found.represented_fraction) == (15, 0.075)
    assert represented_fraction(torch.linalg.vector_norm(torch.as_tensor(W), dim=1), scale=1.0) == 0.075
    norms = np.linalg.norm(W, axis=1)
    assert found.norm_split.represented.mean == pytest.approx(norms[kept].mean(), rel=1e-6)
    assert found.norm_split.others.mean == pytest.approx(0.05, rel=1e-6)
    assert found.norm_split.between > 0.99
    assert found.regime == "weak"


def test_norms_around_one_value_are_not_two_kinds():
    uniform = torch.linspace(0, 1, 1001)
    assert split_norms(uniform).between == pytest.approx(0.75, abs=1e-3)  # variance 1/12, of which 1/16 between halves
    alone = split_norms(torch.tensor([0.9, 1.1]))
    assert (alone.others, alone.between) == (None, None)
    assert split_norms(torch.tensor([0.1, 0.2])).represented is None


def test_losses_ignored_and_short_are_sums_over_the_features_left_out():
    W, kept = planted()
    p = activation_probabilities(PowerLaw(1.5), 200)
    found = measured(W)
    assert found.short_rows_loss == pytest.approx(4 / 3 * p[~kept].sum())
    assert found.ignored_loss == pytest.approx(4 / 3 * p[15:].sum())
    assert found.ignored_loss < found.short_rows_loss  # the most frequent ones would have been the best to keep


def test_the_loss_is_the_mean_of_the_last_hundred_steps():
    found = measured(isotropic(20, 3), losses=[9.0] * 50 + [1.0, 3.0] * 50)
    assert (found.loss, found.loss_std) == pytest.approx((2, 1))


def test_overlap_is_that_of_all_pairs():
    W = isotropic(150, 12)
    found = measured(W)
    assert found.mean_squared_overlap == pytest.approx(oracles.all_pairs(W).mean_square, rel=1e-5)
    assert found.overlap_times_dim == pytest.approx(12 * found.mean_squared_overlap)
    assert found.welch_floor <= found.mean_squared_overlap


def test_a_simplex_is_equiangular_at_the_welch_bound():
    found = equiangularity(torch.from_numpy(simplex(7)))
    assert (found.rows, found.welch, found.mean) == (8, pytest.approx(1 / 7), pytest.approx(1 / 7))
    assert found.std == pytest.approx(0, abs=1e-7)
    assert measured(simplex(7)).mean_squared_overlap == pytest.approx(measured(simplex(7)).welch_floor, rel=1e-6)


def test_random_rows_spread_about_their_mean_cosine():
    m = 100
    found = equiangularity(torch.from_numpy(isotropic(2500, m)))  # more than two blocks of rows
    cosines = np.abs(oracles.cosines(isotropic(2500, m)))
    assert (found.mean, found.std) == pytest.approx((cosines.mean(), cosines.std()), rel=1e-9)
    assert found.mean == pytest.approx(math.sqrt(2 / (math.pi * m)), rel=0.01)
    assert found.std == pytest.approx(math.sqrt((1 - 2 / math.pi) / m), rel=0.02)
    assert found.welch == welch_bound(2500, m)


def test_a_feature_alone_loses_what_the_model_makes_of_it():
    W, b = isotropic(1100, 4) / 2, np.random.default_rng(1).standard_normal(1100)
    model = trained(W, b).model
    x = torch.eye(1100)
    with torch.no_grad():
        expected = (model(x) - x).square().sum(dim=1)
    torch.testing.assert_close(feature_losses(model), expected)


def test_features_whose_output_cannot_show_are_dead():
    W = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    assert measured(W, b=[-1.9, -2.1, 0.0]).dead == 1  # 2‖W_i‖² = 2 is the most that a feature can bring forth


def test_zero_rows_are_left_out_of_the_overlap():
    W = np.vstack([np.eye(3), np.zeros((2, 3))])
    found = measured(W)
    assert found.mean_squared_overlap == pytest.approx(0, abs=1e-12)
    assert found.represented_fraction == 0.6


def cell(**changed):
    given = {
        "features": 60,
        "dims": 6,
        "weight_decay": -1.0,
        "law": PowerLaw(1.0),
        "density": 1.0,
        "seed": 0,
        "plan": TrainingPlan(steps=400, warmup_steps=40, batch=128),
    }
    return ToyCell(**{**given, **changed})


def test_negative_decay_represents_all_features_and_positive_decay_few():
    strong, weak = run_cell(cell()), run_cell(cell(weight_decay=1.0))
    assert strong.represented_fraction > 0.98
    assert strong.regime == "strong"
    assert weak.represented_fraction < 0.25
    assert weak.regime == "weak"


def test_a_cell_is_determined_by_its_seed():
    plan = TrainingPlan(steps=10, warmup_steps=1, batch=32)
    first, again = run_cell(cell(plan=plan)), run_cell(cell(plan=plan))
    assert first.loss == again.loss
    assert np.array_equal(first.W, again.W)
    assert run_cell(cell(plan=plan, seed=1)).loss != first.loss
