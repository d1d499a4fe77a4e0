"""Brackets against packings that are known, arbitrary precision, linear programming, and each other."""

import math
import time
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.errors import GeometryError
from gramian.geometry.bounds import brackets, position
from gramian.geometry.capacity import log10_directions
from gramian.geometry.levenshtein import upper_bounds
from gramian.geometry.published import PUBLISHED_CAPACITIES
from gramian.geometry.quadratic_forms import QuadraticForms, best_quadratic_forms, constructed_lines
from gramian.geometry.random_lines import log_overlap_probability
from gramian.geometry.welch import welch_log10
from tests.geometry.bounds_oracles import coherence

dims = st.integers(8, 16_384)
epsilons = st.floats(0.01, 0.5)


# -- packings that are known ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "dim", "epsilon"), [(6, 3, 1 / math.sqrt(5)), (28, 7, 1 / 3), (276, 23, 1 / 5)])
def test_equiangular_lines_meet_the_upper_bounds(lines, dim, epsilon):
    found = brackets(dim, epsilon)
    assert 10**found.upper_log10 == pytest.approx(lines, rel=1e-9)
    assert 10**found.upper_lines_log10 == pytest.approx(lines, rel=1e-9)
    assert 10 ** welch_log10(dim, epsilon, 1) == pytest.approx(lines, rel=1e-9)


@pytest.mark.parametrize(
    ("lines", "dim", "epsilon"),
    [
        (10, 5, 1 / 3),  # the Petersen graph's lines
        (16, 6, 1 / 3),
        (36, 15, 1 / 5),
        (3, 2, 1 / 2),
        (12, 4, 1 / 2),  # root lines of D4
        (36, 6, 1 / 2),  # of E6
        (63, 7, 1 / 2),  # of E7
        (120, 8, 1 / 2),  # of E8
        (2300, 23, 1 / 3),  # of the kissing configuration in 23 dimensions
        (98_280, 24, 1 / 2),  # of the Leech lattice
        (144, 16, 1 / 4),  # Kerdock's bases
    ],
)
def test_optimal_packings_meet_the_bound_for_lines(lines, dim, epsilon):
    assert 10 ** brackets(dim, epsilon).upper_lines_log10 == pytest.approx(lines, rel=1e-8)


@pytest.mark.parametrize(
    ("dim", "epsilon", "upper"),
    [(4096, 0.0645, 24.1058), (3072, 0.09, 29.2426), (8192, 0.05, 29.9386), (2048, 0.0742, 17.3408)],
)
def test_the_upper_bound_has_its_check_values(dim, epsilon, upper):
    assert brackets(dim, epsilon).upper_log10 == pytest.approx(upper, abs=5e-5)


def test_the_brackets_of_llama_2_7b_have_their_check_values():
    found = brackets(4096, 0.0645)
    assert found.random_log10 == pytest.approx(2.293, abs=5e-4)
    assert found.greedy_log10 == pytest.approx(4.443, abs=5e-4)
    assert found.constructed_log10 == pytest.approx(13.546, abs=5e-4)
    assert (found.exists_log10, found.exists_by) == (found.constructed_log10, "constructed")
    assert found.forms == QuadraticForms(m=12, h=4)


@pytest.mark.parametrize("dim", [2, 3, 8, 4096, 2**53])
def test_an_orthonormal_basis_is_all_there_is_at_epsilon_zero(dim):
    found = brackets(dim, 0.0)
    assert found.exists_log10 == found.upper_log10 == found.upper_lines_log10 == math.log10(dim)
    assert found.exists_by == "basis"


@pytest.mark.parametrize("dim", [2, 3, 6, 17, 1000])
def test_the_lines_of_a_simplex_meet_the_bound_for_lines(dim):
    # d + 1 unit vectors with cosines −1/d, equiangular: 1/d is their Welch bound
    assert 10 ** brackets(dim, 1 / dim).upper_lines_log10 == pytest.approx(dim + 1, rel=1e-9)
    assert brackets(dim, 1 / dim).upper_log10 >= brackets(dim, 1 / dim).upper_lines_log10


@pytest.mark.parametrize("dim", [3, 10, 200])
def test_a_cross_polytope_is_as_large_as_a_code_without_acute_angles_can_be(dim):
    # 2d vectors with cosines 0 or −1: the sphere's bound at ε → 0, before it is halved for lines
    assert 2 * 10 ** upper_bounds(dim, 1e-12).sphere_log10 == pytest.approx(2 * dim, rel=1e-8)


def test_one_dimension_has_one_line():
    for epsilon in (0.0, 0.3, 1.0):
        found = brackets(1, epsilon)
        assert found.exists_log10 == found.upper_log10 == found.upper_lines_log10 == 0


def test_epsilon_one_admits_any_number_of_lines():
    found = brackets(2, 1.0)
    assert (found.greedy_log10, found.upper_log10, found.upper_lines_log10) == (math.inf,) * 3
    assert found.upper_by == "unbounded"
    assert math.isfinite(found.constructed_log10)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-9, 1 - 1e-15])
def test_in_the_plane_lines_share_half_a_turn(epsilon):
    most = math.pi / math.acos(epsilon)
    found = brackets(2, epsilon)
    assert found.upper_log10 >= math.log10(math.floor(most)) - 1e-9
    assert found.upper_lines_log10 <= math.log10(most) + 1e-7 or epsilon < 0.5
    assert found.greedy_log10 <= math.log10(max(math.floor(most), 1)) + 1e-9


# -- constructions --------------------------------------------------------------------------------------------


def kerdock_lines(m):
    """2^m · 2^{m−1} sign vectors of a set of forms whose differences all have rank m, found by search."""
    pairs = list(combinations(range(m), 2))
    points = np.array(list(product((0, 1), repeat=m)))
    squares = np.stack([points[:, i] * points[:, j] for i, j in pairs], axis=1)
    linear = points @ points.T

    def rank(form):
        B = np.zeros((m, m), int)
        for bit, (i, j) in zip(form, pairs, strict=True):
            B[i, j] = B[j, i] = bit
        rank = 0
        for column in range(m):
            pivot = next((row for row in range(rank, m) if B[row, column]), None)
            if pivot is None:
                continue
            B[[rank, pivot]] = B[[pivot, rank]]
            for row in range(m):
                if row != rank and B[row, column]:
                    B[row] ^= B[rank]
            rank += 1
        return rank

    forms = list(product((0, 1), repeat=len(pairs)))

    def extend(chosen, candidates):
        if len(chosen) == 2 ** (m - 1):
            return chosen
        for index, form in enumerate(candidates):
            rest = [other for other in candidates[index + 1 :] if rank(np.bitwise_xor(form, other)) == m]
            if len(chosen) + 1 + len(rest) >= 2 ** (m - 1):
                found = extend([*chosen, form], rest)
                if found:
                    return found
        return None

    chosen = extend([forms[0]], [form for form in forms if rank(form) == m])
    return np.concatenate([(-1.0) ** (linear + squares @ np.array(form)) for form in chosen])


def test_kerdocks_lines_with_the_axes_are_as_many_as_counted_and_as_coherent():
    lines = np.concatenate([kerdock_lines(4) / 4, np.eye(16)])
    assert len(lines) == constructed_lines(16, 0.25) == 144
    assert coherence(lines) == pytest.approx(0.25)


def test_all_forms_with_the_axes_are_as_many_as_counted_and_half_coherent():
    m = 4
    points = np.array(list(product((0, 1), repeat=m)))
    pairs = list(combinations(range(m), 2))
    squares = np.stack([points[:, i] * points[:, j] for i, j in pairs], axis=1)
    lines = np.concatenate(
        [(-1.0) ** (points @ points.T + squares @ np.array(form)) for form in product((0, 1), repeat=len(pairs))]
    )
    assert len(lines) + 16 == constructed_lines(16, 0.5) == 1040
    assert coherence(np.concatenate([lines / 4, np.eye(16)])) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("dim", "epsilon", "lines"),
    [(32, 0.25, 2**10), (128, 0.125, 2**14), (512, 0.0625, 2**18), (2048, 0.03125, 2**22), (128, 0.25, 2**21)],
)
def test_golds_sequences_are_counted_by_their_exponents(dim, epsilon, lines):
    assert best_quadratic_forms(dim, epsilon).lines == lines
    assert best_quadratic_forms(dim + dim // 2, epsilon + 1e-3).lines == lines  # zeros appended
    assert constructed_lines(dim, epsilon) == lines + dim


@given(st.integers(1, 2**53), st.floats(0, 1))
def test_constructed_lines_keep_epsilon_and_fit(dim, epsilon):
    forms = best_quadratic_forms(dim, epsilon)
    assert constructed_lines(dim, epsilon) >= dim
    if forms:
        assert 2**forms.m <= dim
        assert forms.coherence <= epsilon
        assert 1 <= forms.terms <= forms.m // 2


# -- all of them ----------------------------------------------------------------------------------------------


@given(dims, epsilons)
@settings(max_examples=150, deadline=None)
def test_what_exists_is_never_more_than_what_can(dim, epsilon):
    found = brackets(dim, epsilon)
    assert found.exists_log10 <= found.upper_lines_log10 <= found.upper_log10
    assert found.exists_log10 >= math.log10(dim)
    assert found.exists_log10 == max(found.greedy_log10, found.constructed_log10, math.log10(dim))


@pytest.mark.parametrize("j", range(1, 8))
def test_kerdocks_bases_meet_the_bound_for_lines_at_every_power_of_four(j):
    found = brackets(4**j, 2.0**-j)
    assert found.constructed_log10 <= found.upper_lines_log10
    assert found.upper_lines_log10 == pytest.approx(found.constructed_log10, abs=1e-9)


@given(dims, epsilons)
def test_random_draws_hold_less_than_the_greedy_choice_wherever_overlaps_are_rare(dim, epsilon):
    if log_overlap_probability(dim, epsilon) < math.log(0.7):
        assert brackets(dim, epsilon).random_log10 <= brackets(dim, epsilon).greedy_log10


@given(st.integers(1, 2**53), st.floats(-1, 2.2))
@settings(max_examples=150, deadline=None)
def test_brackets_are_numbers_for_every_dimension_and_epsilon(dim, epsilon):
    found = brackets(dim, epsilon)
    values = [value for name, value in vars(found).items() if name.endswith("_log10")]
    assert len(values) == 6
    assert not any(math.isnan(value) or value < 0 for value in values)
    assert found.exists_log10 <= found.upper_log10
    assert math.isinf(found.upper_log10) == (epsilon >= 1 and dim > 1)


def test_random_packings_never_exceed_the_upper_bound():
    rng = np.random.default_rng(3)
    for dim, lines in [(3, 8), (8, 50), (16, 300), (64, 500), (100, 120)]:
        epsilon = coherence(rng.standard_normal((lines, dim)))
        assert math.log10(lines) <= brackets(dim, epsilon).upper_lines_log10


def test_every_call_takes_milliseconds():
    slowest = 0.0
    for dim, epsilon in [(16_384, 0.5), (16_384, 0.96), (16_384, 1 - 1e-12), (2**20, 0.3), (2**20, 0.9), (2**53, 0.1)]:
        started = time.process_time()
        brackets.__wrapped__(dim, epsilon)
        slowest = max(slowest, time.process_time() - started)
    assert slowest < 0.5  # some 0.03 s on an idle core


@pytest.mark.parametrize(
    "call", [lambda: brackets(0, 0.1), lambda: brackets(8, math.nan), lambda: upper_bounds(8, 1.1)]
)
def test_values_out_of_range_are_refused(call):
    with pytest.raises(GeometryError):
        call()


# -- in words -------------------------------------------------------------------------------------------------


def test_thirty_of_the_published_finite_rows_lie_below_an_explicit_code():
    finite = [row for row in PUBLISHED_CAPACITIES if row.capacity is not None]
    above = [row.model for row in finite if row.capacity >= constructed_lines(row.dim, row.epsilon)]
    assert (len(finite), above) == (31, ["Llama 2 70B"])
    assert all(math.log10(row.capacity) < brackets(row.dim, row.epsilon).exists_log10 for row in finite)  # that one too


def test_positions_are_said_in_words():
    llama = brackets(4096, 0.0645)
    assert position(1.0, llama).place == "below_random"
    assert position(log10_directions(4096, 0.0645), llama).place == "below_existing"
    assert "certainly exists" in position(log10_directions(4096, 0.0645), llama).words
    assert position(20.0, llama).place == "open"
    assert position(23.9, llama).place == "above_upper"
    assert "impossible" in position(23.9, llama).words
    assert position(300.0, brackets(4096, 1.0)).place == "unbounded"


def test_an_estimate_lifted_to_d_is_not_below_the_basis():
    assert position(math.log(512) / math.log(10), brackets(512, 0.0)).place == "open"
