"""The fit behind the published constants made again from the published packings, and its errors by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

from gramian.errors import GeometryError
from gramian.geometry.capacity_uncertainty import (
    CONSTANTS_COVARIANCE,
    INDEPENDENT_COVARIANCE,
    capacity_uncertainty,
    constants_gradient,
)
from gramian.geometry.forms import FORMS, log10_directions
from gramian.geometry.published_packings import OPTIMISED, RANDOM

FITTED = FORMS["fitted"]
PUBLISHED = np.array([FITTED.C, FITTED.a, FITTED.b, FITTED.c])
k, d, measured = np.array([row for row in OPTIMISED if row.vectors > row.dim]).T


def relation(constants, keep=slice(None)):
    C, a, b, c = constants
    return np.sqrt(C * (a * np.log(k[keep]) - np.log(d[keep])) ** b / d[keep] ** c)


def jacobian(constants, keep=slice(None)):
    C, a, b, _c = constants
    y, excess = relation(constants, keep), a * np.log(k[keep]) - np.log(d[keep])
    columns = (1 / (2 * C), b * np.log(k[keep]) / (2 * excess), np.log(excess) / 2, -np.log(d[keep]) / 2)
    return np.stack([y * column for column in columns], axis=1)


def fit(values, keep=slice(None)):
    return least_squares(
        lambda constants: relation(constants, keep) - values,
        PUBLISHED,
        jac=lambda constants: jacobian(constants, keep),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    ).x


def form(constants, dim, epsilon):
    """log₁₀ k, written out anew."""
    C, a, b, c = constants
    return (np.log(dim) + (epsilon**2 * dim**c / C) ** (1 / b)) / (a * math.log(10))


def test_the_published_packings_are_166_and_256_of_which_six_have_no_more_vectors_than_dimensions():
    assert (len(OPTIMISED), len(RANDOM), len(k)) == (166, 256, 160)
    assert {row.vectors for row in OPTIMISED} <= set(range(2000, 32_001, 2000))
    assert (min(row.dim for row in OPTIMISED), max(row.dim for row in OPTIMISED)) == (32, 4096)
    for row in (*OPTIMISED, *RANDOM):
        floor = math.sqrt(max(row.vectors - row.dim, 0) / (row.dim * (row.vectors - 1)))
        assert floor <= row.epsilon < 1  # Welch


def test_least_squares_on_epsilon_give_the_published_constants():
    assert fit(measured) == pytest.approx(PUBLISHED, rel=5e-6)


def test_the_plain_covariance_is_that_of_the_least_squares():
    J, residuals = jacobian(PUBLISHED), relation(PUBLISHED) - measured
    expected = np.linalg.inv(J.T @ J) * (residuals**2).sum() / (len(k) - 4)
    assert np.array(INDEPENDENT_COVARIANCE) == pytest.approx(expected, rel=1e-5)


def test_the_covariance_used_is_clustered_by_dimension():
    J, residuals = jacobian(PUBLISHED), relation(PUBLISHED) - measured
    bread, clusters = np.linalg.inv(J.T @ J), np.unique(d)
    scores = [J[d == dim].T @ residuals[d == dim] for dim in clusters]
    count, points = len(clusters), len(k)
    correction = count / (count - 1) * (points - 1) / (points - 4)
    expected = bread @ sum(np.outer(score, score) for score in scores) @ bread * correction
    assert count == 13
    assert np.array(CONSTANTS_COVARIANCE) == pytest.approx(expected, rel=1e-4)  # the table has seven digits


@pytest.mark.parametrize(("dim", "epsilon"), [(4096, 0.0645), (2048, 0.0742), (1024, 0.04), (16_384, 0.04813)])
def test_leaving_out_one_dimension_at_a_time_moves_the_estimate_as_much_as_said(dim, epsilon):
    clusters = np.unique(d)
    moved = np.array([form(fit(measured[d != left_out], d != left_out), dim, epsilon) for left_out in clusters])
    jackknife = math.sqrt((len(clusters) - 1) / len(clusters) * ((moved - moved.mean()) ** 2).sum())
    found = capacity_uncertainty(dim, epsilon)
    assert 0.6 < found.constants_log10_se / jackknife < 1.5
    assert found.constants_log10_se_if_independent < 0.75 * jackknife


def test_fits_to_independent_errors_scatter_as_the_plain_covariance_says():
    rng = np.random.default_rng(5)
    sigma = math.sqrt(((relation(PUBLISHED) - measured) ** 2).sum() / (len(k) - 4))
    estimates = [form(fit(relation(PUBLISHED) + sigma * rng.standard_normal(len(k))), 4096, 0.0645) for _ in range(150)]
    assert np.std(estimates) == pytest.approx(
        capacity_uncertainty(4096, 0.0645).constants_log10_se_if_independent, rel=0.2
    )


@given(st.integers(2, 20_000), st.floats(0.01, 0.5))
def test_the_gradient_is_the_derivative_by_each_constant(dim, epsilon):
    for index, slope in enumerate(constants_gradient(dim, epsilon)):
        step = np.zeros(4)
        step[index] = 1e-6
        difference = (form(PUBLISHED + step, dim, epsilon) - form(PUBLISHED - step, dim, epsilon)) / 2e-6
        assert slope == pytest.approx(difference, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("dim", "epsilon", "epsilon_se"),
    [(4096, 0.0645, 0.0005), (4096, 0.0645, 0.002), (2048, 0.0742, 0.003), (1024, 0.04, 0.0001), (8192, 0.05, 0.001)],
)
def test_the_interval_holds_95_per_cent_of_simulated_estimates(dim, epsilon, epsilon_se):
    rng = np.random.default_rng(2)
    errors = rng.multivariate_normal(np.zeros(4), np.array(CONSTANTS_COVARIANCE), size=20_000)
    constants = PUBLISHED + errors
    constants[:, 0] = PUBLISHED[0] * np.exp(errors[:, 0] / PUBLISHED[0])  # a factor: C stays positive
    simulated = form(constants.T, dim, epsilon + epsilon_se * rng.standard_normal(20_000))
    found = capacity_uncertainty(dim, epsilon, epsilon_se=epsilon_se)
    low, high = found.interval_log10
    assert np.mean((simulated > low) & (simulated < high)) == pytest.approx(0.95, abs=0.015)
    spread = (np.quantile(simulated, 0.841) - np.quantile(simulated, 0.159)) / 2  # of a normal: its deviation
    assert found.log10_se == pytest.approx(spread, rel=0.03)


def test_the_two_sources_add_as_independent_errors():
    found = capacity_uncertainty(4096, 0.0645, epsilon_se=0.001)
    assert found.log10_se == pytest.approx(math.hypot(found.epsilon_log10_se, found.constants_log10_se))
    step = 1e-6
    slope = (log10_directions(4096, 0.0645 + step) - log10_directions(4096, 0.0645 - step)) / (2 * step)
    assert found.epsilon_log10_se == pytest.approx(0.001 * slope, rel=1e-5)


def test_without_an_error_of_epsilon_the_constants_alone_make_the_interval():
    found = capacity_uncertainty(4096, 0.0645)
    assert found.epsilon_log10_se is None
    assert found.log10_se == found.constants_log10_se
    low, high = found.interval_log10
    assert (high - low) / 2 == pytest.approx(1.96 * found.constants_log10_se)


@given(st.integers(1, 2**53), st.floats(-1, 1), st.one_of(st.none(), st.floats(0, 10)))
def test_intervals_are_finite_ordered_and_not_below_d(dim, epsilon, epsilon_se):
    low, high = capacity_uncertainty(dim, epsilon, epsilon_se=epsilon_se).interval_log10
    assert math.log(dim) / math.log(10) <= low <= high < math.inf


@pytest.mark.parametrize("epsilon_se", [-1, math.nan, math.inf])
def test_impossible_standard_errors_are_refused(epsilon_se):
    with pytest.raises(GeometryError):
        capacity_uncertainty(4096, 0.05, epsilon_se=epsilon_se)
