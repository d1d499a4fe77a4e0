"""Upper bounds against arbitrary precision, linear programming, and Welch's."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.geometry.bounds import brackets
from gramian.geometry.levenshtein import LARGEST_DEGREE, caps_log10, sufficient_degree, upper_bounds
from gramian.geometry.random_lines import log_overlap_probability
from gramian.geometry.welch import welch_log10
from tests.geometry.bounds_oracles import linear_program, lines_bound, sphere_bound

dims = st.integers(8, 16_384)
epsilons = st.floats(0.01, 0.5)


@pytest.mark.parametrize(
    ("dim", "epsilon"),
    [
        (3, 0.2),
        (3, 0.6),
        (3, 0.95),
        (5, 0.3),
        (24, 0.499),
        (100, 0.12),
        (384, 0.1),
        (1024, 0.05),
        (4096, 0.0645),
        (16_384, 0.05),
        (2**20, 0.004),
    ],
)
def test_the_recurrence_agrees_with_hypergeometric_series_in_arbitrary_precision(dim, epsilon):
    found = upper_bounds(dim, epsilon)
    with mpmath.workdps(120):
        sphere, lines = (float(mpmath.log10(bound(dim, epsilon))) for bound in (sphere_bound, lines_bound))
    assert found.sphere_log10 == pytest.approx(sphere, rel=1e-10)
    assert found.lines_log10 == pytest.approx(lines, rel=1e-10)
    assert found.sphere_log10 >= sphere  # rounded up, never down
    assert found.lines_log10 >= lines


@pytest.mark.parametrize(
    ("dim", "epsilon"), [(3, 0.3), (4, 0.35), (5, 0.33), (8, 0.3), (16, 0.2), (24, 0.35), (48, 0.1)]
)
def test_no_polynomial_of_its_degree_proves_more(dim, epsilon):
    found = upper_bounds(dim, epsilon)
    even = range(2, 2 * (found.degree - 1) + 1, 2)
    lines = linear_program(dim, epsilon, even, lowest=0.0)
    assert 10**found.lines_log10 == pytest.approx(lines, rel=2e-3)
    sphere = min(
        linear_program(dim, epsilon, range(1, degree + 1), lowest=-1.0)
        for degree in (2 * found.degree - 1, 2 * found.degree)
    )
    assert 2 * 10**found.sphere_log10 >= sphere * (1 - 1e-3)


@given(dims, epsilons)
@settings(max_examples=60, deadline=None)
def test_the_bound_for_lines_is_the_sharper_one(dim, epsilon):
    found = upper_bounds(dim, epsilon)
    assert math.log10(dim) <= found.lines_log10 <= found.sphere_log10


@given(dims, st.floats(0.001, 0.6), st.floats(0.001, 0.6))
@settings(max_examples=60, deadline=None)
def test_a_larger_epsilon_never_lowers_the_upper_bounds(dim, one, other):
    low, high = sorted((one, other))
    assert upper_bounds(dim, low).sphere_log10 <= upper_bounds(dim, high).sphere_log10
    assert upper_bounds(dim, low).lines_log10 <= upper_bounds(dim, high).lines_log10


@given(st.integers(2, 60), st.floats(0.001, 0.9), st.integers(1, 60))
def test_welchs_bounds_of_every_order_are_weaker(dim, epsilon, order):
    assert upper_bounds(dim, epsilon).lines_log10 <= welch_log10(dim, epsilon, order) + 1e-9


def test_the_best_of_welchs_orders_is_far_looser_in_high_dimensions():
    assert min(welch_log10(4096, 0.0645, order) for order in range(1, 200)) == pytest.approx(105.18, abs=0.01)


@pytest.mark.parametrize(("dim", "epsilon"), [(3, 0.2), (3, 0.9), (20, 0.4), (500, 0.08), (4096, 0.3)])
def test_a_sufficient_degree_lies_just_beyond_the_degree_of_the_bound(dim, epsilon):
    degree, sufficient = upper_bounds(dim, epsilon).degree, sufficient_degree(dim, epsilon)
    assert degree <= sufficient <= degree + 2 + degree // 5


def test_beyond_the_largest_degree_the_bound_stays_close():
    dim, epsilon = 16_384, 0.95
    exact = upper_bounds(dim, epsilon)
    degree = sufficient_degree(dim, epsilon)
    coarse = math.log10(math.comb(degree + dim - 1, degree))
    assert exact.sphere_log10 <= coarse < exact.sphere_log10 * 1.01
    beyond = upper_bounds(dim, 0.98)
    assert beyond.method == "next_degree"
    assert beyond.degree > LARGEST_DEGREE
    assert beyond.sphere_log10 > exact.sphere_log10


def test_caps_bound_what_the_other_bounds_do_not_reach():
    found = brackets(2, 1 - 1e-12)
    assert found.upper_by == "caps"
    assert caps_log10(3, 0.5) == pytest.approx(-log_overlap_probability(3, math.sqrt(0.75)) / math.log(10))
