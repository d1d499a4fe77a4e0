"""Ranks of a spectrum, and the closed forms they are compared with."""

import math

import numpy as np
import pytest
import torch

from gramian.errors import GeometryError
from gramian.geometry.baselines import random_epsilon, welch_bound, welch_floor
from gramian.geometry.similarity import cosine_moments, gram_matrix, row_blocks
from gramian.geometry.spectrum import effective_rank, spectrum
from tests.geometry.matrices import FAMILIES, isotropic, simplex


def test_a_flat_spectrum_uses_every_dimension():
    found = spectrum(3 * torch.eye(7))
    assert found.eigenvalues.tolist() == [3] * 7
    ranks = (found.effective_rank, found.entropy_rank, found.stable_rank)
    assert ranks == pytest.approx((7, 7, 7))
    assert (found.condition, found.isotropy) == (pytest.approx(1), pytest.approx(1))


def test_a_single_direction_has_rank_one_and_no_condition():
    v = torch.arange(1.0, 6.0, dtype=torch.float64)
    found = spectrum(torch.outer(v, v))
    assert (found.effective_rank, found.entropy_rank, found.stable_rank) == pytest.approx((1, 1, 1))
    assert found.condition is None
    assert found.isotropy == pytest.approx(1 / 5)


def test_ranks_of_a_known_spectrum():
    found = spectrum(torch.diag(torch.tensor([1.0, 2.0, 1.0])))
    assert found.eigenvalues.tolist() == [2, 1, 1]
    assert found.effective_rank == pytest.approx(16 / 6)
    assert found.entropy_rank == pytest.approx(math.exp(0.5 * math.log(2) + 2 * 0.25 * math.log(4)))
    assert found.stable_rank == pytest.approx(2)
    assert found.condition == pytest.approx(2)


@pytest.mark.parametrize("family", FAMILIES)
def test_effective_rank_needs_only_the_mean_square(family):
    W = FAMILIES[family](300, 20)
    moments = cosine_moments([W], dim=20, products=torch.float64)
    found = spectrum(gram_matrix([W], dim=20, products=torch.float64))
    assert effective_rank(300, moments.mean_square) == pytest.approx(found.effective_rank, rel=1e-9)
    assert float(found.eigenvalues.sum()) == pytest.approx(300)
    assert found.stable_rank <= found.effective_rank <= found.entropy_rank <= 20 + 1e-9


def test_a_zero_matrix_has_no_spectrum():
    with pytest.raises(GeometryError):
        spectrum(torch.zeros(3, 3))


@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_a_simplex_stands_on_the_welch_floor(d):
    moments = cosine_moments(row_blocks(simplex(d)), dim=d, products=torch.float64)
    assert moments.mean_square == pytest.approx(welch_floor(d + 1, d), rel=1e-9)
    assert welch_bound(d + 1, d) == pytest.approx(1 / d)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_matrix_lies_below_the_welch_floor(family):
    W = FAMILIES[family](100, 20)
    assert cosine_moments([W], dim=20).mean_square > welch_floor(100, 20)


def test_the_floor_is_zero_while_orthogonal_rows_fit():
    assert (welch_floor(1, 1), welch_floor(5, 5), welch_floor(4, 5)) == (0, 0, 0)
    assert welch_floor(6, 5) == pytest.approx(1 / 25)


def test_random_rows_have_the_epsilon_of_the_null_model():
    found = cosine_moments([isotropic(4000, 64)], dim=64)
    assert found.epsilon == pytest.approx(random_epsilon(64), rel=0.01)


@pytest.mark.parametrize("call", [lambda: welch_floor(0, 3), lambda: welch_floor(3, 0), lambda: random_epsilon(0)])
def test_empty_matrices_have_no_baseline(call):
    with pytest.raises(GeometryError):
        call()


def test_eigenvalues_are_those_of_an_independent_decomposition():
    W = isotropic(200, 12)
    singular = np.linalg.svd(W / np.linalg.norm(W, axis=1, keepdims=True), compute_uv=False)
    found = spectrum(gram_matrix([W], dim=12, products=torch.float64))
    assert found.eigenvalues.numpy() == pytest.approx(singular**2)
