"""Moments of the pairwise cosine against all pairs formed one by one, and against theory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.errors import GeometryError, TooFewRows
from gramian.geometry.measurement import measure_matrix
from gramian.geometry.similarity import CosineMoments, choose_products, cosine_moments, gram_matrix, row_blocks
from tests.geometry.matrices import FAMILIES, anisotropic, isotropic, nearly_parallel, simplex
from tests.geometry.oracles import all_pairs, unit

PRODUCTS = [torch.float32, torch.float64]


def moments_of(W, products=torch.float64, rows=7) -> CosineMoments:
    return cosine_moments(row_blocks(W, rows=rows), dim=W.shape[1], products=products)


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_moments_are_those_of_all_pairs(family, products):
    W = FAMILIES[family](1500, 48)
    expected, found = all_pairs(W), moments_of(W, products, rows=400)
    tolerance = 1e-10 if products == torch.float64 else 1e-5
    assert found.pairs == 1500 * 1499 // 2
    assert found.mean == pytest.approx(expected.mean, rel=tolerance, abs=1e-8)
    assert found.std == pytest.approx(expected.std, rel=tolerance)
    assert found.mean_square == pytest.approx(expected.mean_square, rel=tolerance)
    assert found.epsilon == pytest.approx(expected.epsilon, rel=tolerance)


def test_nearly_parallel_rows_keep_five_digits_with_single_precision_products():
    W = nearly_parallel(3000, 64)
    expected, found = all_pairs(W), moments_of(W, torch.float32, rows=1000)
    assert expected.mean == pytest.approx(0.998, abs=2e-4)
    assert expected.std == pytest.approx(5e-4, rel=0.2)
    assert found.std == pytest.approx(expected.std, rel=1e-5)
    assert found.epsilon == pytest.approx(expected.epsilon, rel=1e-7)


@pytest.mark.parametrize("products", PRODUCTS)
def test_nearly_parallel_rows_keep_their_own_means_and_errors(products):
    W = nearly_parallel(1000, 64)
    expected = all_pairs(W)
    found = measure_matrix(row_blocks(W, rows=300), rows=1000, dim=64, products=products)
    assert found.per_row.mean_cosine == pytest.approx(expected.row_mean, rel=1e-8)
    assert found.per_row.mean_square_cosine == pytest.approx(expected.row_square, rel=1e-8)
    assert found.standard_errors.mean == pytest.approx(expected.se_mean, rel=1e-4)
    assert found.standard_errors.std == pytest.approx(expected.se_std, rel=1e-4)
    assert found.standard_errors.epsilon == pytest.approx(expected.se_epsilon, rel=1e-4)


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_gram_matrix_is_that_of_the_unit_rows(family, products):
    W = FAMILIES[family](90, 13)
    expected = unit(W).T @ unit(W)
    assert gram_matrix(row_blocks(W, rows=40), dim=13, products=products).numpy() == pytest.approx(
        expected, rel=1e-5, abs=1e-5
    )


def test_a_recentred_sum_still_knows_the_plain_gram_matrix():
    from gramian.geometry.similarity import RunningPairSums, recentred

    W = nearly_parallel(200, 16)
    running = RunningPairSums(16, torch.float32)
    running.add(torch.from_numpy(unit(W)).float())
    sums = recentred(running.sums(), row_blocks(W))
    assert sums.centre is not None
    assert sums.gram().numpy() == pytest.approx(unit(W).T @ unit(W), rel=1e-6)


@pytest.mark.parametrize("products", PRODUCTS)
def test_orthonormal_rows_have_no_overlap(products):
    found = moments_of(torch.eye(20), products)
    assert (found.mean, found.std, found.mean_square, found.epsilon) == pytest.approx((0, 0, 0, 0), abs=1e-9)


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("d", [2, 5, 64])
def test_any_two_rows_of_a_simplex_meet_at_minus_one_over_d(d, products):
    found = moments_of(simplex(d), products)
    assert found.mean == pytest.approx(-1 / d, abs=1e-7)
    assert found.std == pytest.approx(0, abs=1e-3 if products == torch.float32 else 1e-7)
    assert found.mean_square == pytest.approx(1 / d**2, abs=1e-6)


@pytest.mark.parametrize("products", PRODUCTS)
def test_equal_rows_have_cosine_one_without_spread(products):
    found = moments_of(np.tile(isotropic(1, 33), (50, 1)), products)
    assert (found.mean, found.std, found.epsilon) == pytest.approx((1, 0, 1), abs=1e-7)


def test_two_rows_have_one_cosine():
    found = moments_of(torch.tensor([[1.0, 0.0], [3.0, 4.0]]))
    assert (found.pairs, found.mean, found.std) == (1, pytest.approx(0.6, abs=1e-7), pytest.approx(0, abs=1e-7))


def test_on_a_line_cosines_are_plus_and_minus_one():
    found = moments_of(torch.tensor([[2.0], [-1.0], [5.0]]))  # cosines −1, −1, 1
    assert found.mean == pytest.approx(-1 / 3)
    assert found.mean_square == pytest.approx(1)


@pytest.mark.parametrize("W", [torch.ones(1, 4), torch.zeros(6, 4), torch.full((3, 4), torch.nan), torch.empty(0, 4)])
def test_fewer_than_two_usable_rows_have_no_pairs(W):
    with pytest.raises(TooFewRows) as raised:
        moments_of(W)
    assert raised.value.used == min(len(W), 1) * int(bool(W.sum() == 4))
    assert raised.value.zero == (6 if len(W) == 6 else 0)
    assert raised.value.nonfinite == (3 if len(W) == 3 else 0)


def test_a_block_of_another_width_is_refused():
    with pytest.raises(GeometryError, match=r"\[3, 5\]"):
        cosine_moments([torch.ones(2, 4), torch.ones(3, 5)], dim=4)


def test_whole_numbers_are_refused():
    with pytest.raises(GeometryError, match="int64"):
        cosine_moments([torch.ones(2, 4, dtype=torch.int64)], dim=4)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_single_rows_does_not_matter_in_float32(scale):
    W = torch.from_numpy(anisotropic(60, 8)).float()
    scaled = W.clone()
    scaled[::3] *= scale
    assert moments_of(scaled).epsilon == pytest.approx(moments_of(W).epsilon, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e-307])
def test_the_scale_of_single_rows_does_not_matter_in_float64(scale):
    W = anisotropic(60, 8)
    scaled = W.copy()
    scaled[::3] *= scale
    assert moments_of(scaled).epsilon == pytest.approx(moments_of(W).epsilon, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_storage_type_is_read_as_the_numbers_it_holds(dtype):
    W = torch.from_numpy(anisotropic(200, 16)).to(dtype)
    assert moments_of(W).epsilon == pytest.approx(all_pairs(W.double().numpy()).epsilon, rel=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 7, 64, 99, 100, 1000])
def test_the_size_of_the_blocks_does_not_matter(rows):
    W = anisotropic(100, 9)
    assert moments_of(W, rows=rows).epsilon == pytest.approx(all_pairs(W).epsilon, rel=1e-12)


def test_large_blocks_are_cut_and_give_the_same(monkeypatch):
    from gramian.geometry import rows

    monkeypatch.setattr(rows, "CHUNK_ROWS", 5)
    monkeypatch.setattr(rows, "CHUNK_ELEMENTS", 45)
    W = anisotropic(103, 9)
    found = measure_matrix([W[:50], W[50:]], rows=103, dim=9)
    assert found.moments.epsilon == pytest.approx(all_pairs(W).epsilon, rel=1e-12)
    assert found.per_row.mean_square_cosine == pytest.approx(all_pairs(W).row_square, rel=1e-10)


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_rows_does_not_matter(seed):
    W = anisotropic(40, 6)
    shuffled = np.random.default_rng(seed).permutation(W)
    assert moments_of(shuffled).epsilon == pytest.approx(moments_of(W).epsilon, rel=1e-12)


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_rotating_the_space_does_not_matter(seed):
    W = anisotropic(40, 6)
    rotation, _ = np.linalg.qr(isotropic(6, 6, seed))
    assert moments_of(W @ rotation).epsilon == pytest.approx(moments_of(W).epsilon, rel=1e-12)


@given(st.lists(st.floats(1e-280, 1e280), min_size=40, max_size=40))
@settings(max_examples=25, deadline=None)
def test_positive_factors_on_the_rows_do_not_matter(factors):
    W = anisotropic(40, 6)
    assert moments_of(W * np.array(factors)[:, None]).epsilon == pytest.approx(moments_of(W).epsilon, rel=1e-12)


@given(st.integers(2, 60), st.integers(1, 12), seeds)
@settings(max_examples=40, deadline=None)
def test_moments_of_any_small_matrix_are_those_of_all_pairs(n, d, seed):
    W = isotropic(n, d, seed)
    expected, found = all_pairs(W) if n > 2 else None, moments_of(W)
    if expected:
        assert found.mean == pytest.approx(expected.mean, abs=1e-12)
        assert found.mean_square == pytest.approx(expected.mean_square, abs=1e-12)
    assert found.std**2 == pytest.approx(found.mean_square - found.mean**2, abs=1e-12)


@pytest.mark.parametrize("family", ["isotropic", "anisotropic", "clustered"])
def test_standard_errors_are_the_first_order_projection(family):
    W = FAMILIES[family](400, 24)
    expected = all_pairs(W)
    errors = measure_matrix([W], rows=400, dim=24).standard_errors
    assert errors.mean == pytest.approx(expected.se_mean, rel=1e-9)
    assert errors.std == pytest.approx(expected.se_std, rel=1e-9)
    assert errors.epsilon == pytest.approx(expected.se_epsilon, rel=1e-9)


def test_standard_errors_are_the_spread_over_repeated_samples():
    n, samples = 400, 300
    found = [measure_matrix([anisotropic(n, 8, seed)], rows=n, dim=8) for seed in range(samples)]
    for name in ("mean", "std", "epsilon"):
        spread = np.std([getattr(g.moments, name) for g in found], ddof=1)
        claimed = np.mean([getattr(g.standard_errors, name) for g in found])
        assert claimed == pytest.approx(spread, rel=0.15)  # the spread itself is known to 1/√600 = 4 %


def test_standard_errors_need_three_rows():
    errors = measure_matrix([torch.tensor([[1.0, 0.0], [3.0, 4.0]])], rows=2, dim=2).standard_errors
    assert (errors.mean, errors.std, errors.epsilon) == (None, None, None)


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("W", [torch.eye(8), torch.ones(5, 3)])
def test_without_spread_only_the_mean_has_an_error(W, products):
    errors = measure_matrix([W], rows=W.shape[0], dim=W.shape[1], products=products).standard_errors
    assert (errors.std, errors.epsilon) == (None, None)
    assert errors.mean == pytest.approx(0, abs=1e-7)


def test_double_precision_is_chosen_while_it_is_cheap():
    assert choose_products(5000, 300) == torch.float64
    assert choose_products(128_256, 2048) == torch.float32
