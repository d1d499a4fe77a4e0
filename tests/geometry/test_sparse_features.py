"""The sparse sampler draws what the dense definition draws."""

import numpy as np
import torch
from scipy import stats

from gramian.geometry.frequencies import PowerLaw, activation_probabilities
from gramian.geometry.sparse_features import SparseSampler

N = 12
P = activation_probabilities(PowerLaw(1.0), N, density=3.0)  # p_1 = 0.967: far from sparse


def drawn(samples, p=P, seed=0):
    return SparseSampler(p, torch.Generator().manual_seed(seed)).draw(samples)


def test_triples_are_sorted_and_each_cell_occurs_once():
    batch = drawn(5000)
    cell = batch.sample * N + batch.feature
    assert (cell.diff() > 0).all()
    assert (batch.sample.min(), batch.sample.max()) == (0, 4999)
    assert (batch.value >= 0).all()
    assert (batch.value < 2).all()
    assert (batch.sample.dtype, batch.feature.dtype, batch.value.dtype) == (torch.int64, torch.int64, torch.float32)


def test_features_are_active_as_often_as_their_probability_says():
    samples = 40_000
    counts = torch.bincount(drawn(samples).feature, minlength=N).numpy()
    z = (counts - samples * P) / np.sqrt(samples * P * (1 - P))
    assert stats.chi2.cdf((z**2).sum(), N) < 0.999


def test_activations_are_independent_between_features_and_samples():
    samples = 40_000
    active = (drawn(samples).dense(N) > 0).double().numpy()
    correlation = np.corrcoef(active, rowvar=False)[~np.eye(N, dtype=bool)]
    assert np.abs(correlation).max() * np.sqrt(samples) < 4.5  # of 66 pairs
    neighbours = [np.corrcoef(active[:-1, i], active[1:, i])[0, 1] for i in range(N)]
    assert np.abs(neighbours).max() * np.sqrt(samples) < 4


def test_the_number_of_active_features_is_that_of_dense_draws():
    samples = 20_000
    sparse = torch.bincount(drawn(samples).sample, minlength=samples).numpy()
    dense = (np.random.default_rng(1).random((samples, N)) < P).sum(axis=1)
    table = np.array([np.bincount(counts, minlength=N + 1)[:8] for counts in (sparse, dense)])
    assert stats.chi2_contingency(table[:, table.min(axis=0) > 5]).pvalue > 1e-3


def test_values_are_uniform_up_to_two():
    assert stats.kstest(drawn(5000).value.double().numpy() / 2, "uniform").pvalue > 1e-3


def test_a_certain_feature_is_active_in_every_sample():
    batch = drawn(3000, p=np.array([1.0, 0.01]))
    assert (batch.feature == 0).sum() == 3000


def test_nothing_may_be_active():
    batch = drawn(4, p=np.array([1e-12, 1e-12]))
    assert len(batch.feature) == 0
    assert torch.equal(batch.dense(2), torch.zeros(4, 2))


def test_the_same_seed_draws_the_same_batch():
    first, second = drawn(100, seed=7), drawn(100, seed=7)
    assert torch.equal(first.dense(N), second.dense(N))
    assert not torch.equal(first.dense(N), drawn(100, seed=8).dense(N))
