"""The law of two random lines against closed forms, arbitrary precision, and draws."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramian.errors import GeometryError
from gramian.geometry.gamma_ratios import log_binomial, log_gamma_ratio
from gramian.geometry.random_lines import (
    greedy_log10,
    log_overlap_probability,
    log_probability_beyond,
    random_log10,
)

epsilons = st.floats(0, 1)


@given(epsilons.filter(lambda epsilon: epsilon < 1))
def test_in_the_plane_the_angle_is_uniform(epsilon):
    expected = math.log(2 / math.pi * math.acos(epsilon))
    assert log_overlap_probability(2, epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(epsilons.filter(lambda epsilon: epsilon < 1))
def test_in_space_the_cosine_is_uniform(epsilon):
    assert log_overlap_probability(3, epsilon) == pytest.approx(math.log1p(-epsilon), rel=1e-12, abs=1e-150)


@pytest.mark.parametrize("dim", [4, 17, 384, 4096, 16_384, 2**20])
@pytest.mark.parametrize("epsilon", [1e-6, 0.003, 0.0645, 0.3, 0.71, 0.95, 0.999999])
def test_the_tail_is_the_integral_of_the_density_however_small_it_is(dim, epsilon):
    with mpmath.workdps(30):
        a, start = (mpmath.mpf(dim) - 1) / 2, mpmath.mpf(epsilon)
        width = min(1 / mpmath.sqrt(a), (1 - start**2) / (2 * a * start))  # over which the density falls
        nodes = [start + width * 2**i for i in range(-2, 12) if start + width * 2**i < 1]
        tail = mpmath.quad(lambda t: ((1 - t**2) / (1 - start**2)) ** (a - 1), [start, *nodes, 1])
        constant = mpmath.log(2) + mpmath.loggamma(a + 0.5) - mpmath.loggamma(a) - mpmath.log(mpmath.pi) / 2
        expected = float(constant + (a - 1) * mpmath.log(1 - start**2) + mpmath.log(tail))
    assert log_overlap_probability(dim, epsilon) == pytest.approx(expected, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("z", [1e-4, 0.7, 1.4999, 1.5001, 4.0, 25.0])
def test_in_vast_dimensions_the_cosine_is_gaussian(z):
    dim = 2**52
    assert log_overlap_probability(dim, math.sqrt(2 * z / dim)) == pytest.approx(math.log(math.erfc(math.sqrt(z))))


@given(st.integers(2, 2**20), epsilons, epsilons)
def test_larger_overlaps_are_rarer(dim, one, other):
    low, high = sorted((one, other))
    assert log_overlap_probability(dim, high) <= log_overlap_probability(dim, low) + 1e-12


@given(st.integers(1, 2**53), epsilons)
def test_a_probability_is_never_nan_nor_above_one(dim, epsilon):
    assert log_overlap_probability(dim, epsilon) <= 0
    assert greedy_log10(dim, epsilon) >= 0
    assert random_log10(dim, epsilon) > 0


def test_one_dimension_has_one_line_and_epsilon_one_admits_all():
    assert log_overlap_probability(1, 0.5) == log_overlap_probability(1, 1.0) == 0
    assert log_overlap_probability(2, 1.0) == -math.inf
    assert greedy_log10(2, 1.0) == random_log10(2, 1.0) == math.inf


def test_cosines_too_near_one_for_a_double_are_told_apart_by_their_rest():
    assert log_probability_beyond(2, 1.0, 1e-30) == pytest.approx(math.log(2 / math.pi * 1e-15))


@pytest.mark.parametrize(("dim", "epsilon"), [(0, 0.5), (8, -0.1), (8, 1.1), (8, math.nan)])
def test_values_out_of_range_are_refused(dim, epsilon):
    with pytest.raises(GeometryError):
        log_overlap_probability(dim, epsilon)


@pytest.mark.parametrize(("dim", "epsilon"), [(8, 0.3), (64, 0.05), (64, 0.35), (300, 0.1)])
def test_drawn_lines_overlap_as_often_as_the_law_says(dim, epsilon):
    rng = np.random.default_rng(7)
    pairs = 40_000
    # a Gaussian vector against the first axis: its direction is uniform
    v = rng.standard_normal((pairs, dim))
    share = np.mean(v[:, 0] ** 2 > epsilon**2 * (v**2).sum(axis=1))
    p = math.exp(log_overlap_probability(dim, epsilon))
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / pairs)


def test_half_of_all_draws_of_the_random_number_of_lines_have_no_pair_above_epsilon():
    dim, epsilon, draws = 48, 0.45, 800
    count = round(10 ** random_log10(dim, epsilon))  # 41 lines, 820 pairs
    rng = np.random.default_rng(11)
    upper = np.triu_indices(count, 1)
    kept = 0
    for _ in range(draws):
        v = rng.standard_normal((count, dim))
        u = v / np.linalg.norm(v, axis=1, keepdims=True)
        kept += np.abs(u @ u.T)[upper].max() <= epsilon
    assert count > 20
    assert abs(kept / draws - 0.5) < 0.07  # 4 standard errors; k² in place of k(k − 1) shifts it by 0.01


@given(st.floats(0.5, 2**53), st.floats(0, 1000))
def test_gamma_ratios_agree_with_arbitrary_precision(x, step):
    with mpmath.workdps(50):
        expected = float(mpmath.loggamma(mpmath.mpf(x) + mpmath.mpf(step)) - mpmath.loggamma(x))
    assert log_gamma_ratio(x, step) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(0, 200))
def test_binomials_agree_with_the_integers(n, k):
    if k <= n:
        assert log_binomial(n, k) == pytest.approx(math.log(math.comb(n, k)), rel=1e-11, abs=1e-9)
