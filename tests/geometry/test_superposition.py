"""Norms, feature dimensionality and regimes with known answers."""

import math

import numpy as np
import pytest
import torch

from gramian.errors import GeometryError, TooFewRows
from gramian.geometry.measurement import measure_matrix
from gramian.geometry.similarity import row_blocks
from gramian.geometry.superposition import (
    feature_dimensionality,
    norm_statistics,
    represented_fraction,
    superposition_regime,
)
from tests.geometry import oracles
from tests.geometry.matrices import FAMILIES, anisotropic, isotropic

F64 = torch.float64


def test_orthonormal_rows_each_own_a_dimension():
    assert feature_dimensionality([torch.eye(9)], dim=9).tolist() == pytest.approx([1] * 9)


def test_antipodal_pairs_share_a_dimension_in_halves():
    W = torch.cat([torch.eye(4), -torch.eye(4)])
    assert feature_dimensionality([W], dim=4).tolist() == pytest.approx([0.5] * 8)


def test_pentagon_rows_each_own_two_fifths_of_a_dimension():
    angles = 2 * math.pi * torch.arange(5, dtype=F64) / 5
    W = torch.stack([angles.cos(), angles.sin()], dim=1)
    assert feature_dimensionality([W], dim=2, products=F64).tolist() == pytest.approx([0.4] * 5)


@pytest.mark.parametrize("products", [torch.float32, F64])
@pytest.mark.parametrize("family", FAMILIES)
def test_feature_dimensionality_is_that_of_its_definition(family, products):
    W = FAMILIES[family](300, 17) * np.random.default_rng(1).lognormal(size=(300, 1))
    expected = oracles.feature_dimensionality(W)
    tolerance = 1e-10 if products == F64 else 1e-5
    found = feature_dimensionality(row_blocks(W, rows=77), dim=17, products=products)
    assert found.numpy() == pytest.approx(expected, rel=tolerance)
    measured = measure_matrix(row_blocks(W, rows=77), rows=300, dim=17, products=products)
    assert measured.per_row.feature_dimensionality == pytest.approx(expected, rel=tolerance)
    assert measured.feature_dimensionality == pytest.approx(expected.mean(), rel=tolerance)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_a_common_scale_leaves_feature_dimensionality_alone(scale):
    W = torch.from_numpy(anisotropic(50, 6)).float()
    found = feature_dimensionality(row_blocks(W * scale, rows=8), dim=6)
    assert found.tolist() == pytest.approx(oracles.feature_dimensionality(W.numpy()).tolist(), rel=1e-5)


def test_rows_sixty_orders_apart_stay_finite():
    W = anisotropic(20, 4)
    W[::2] *= 1e30
    W[1::2] *= 1e-30
    found = feature_dimensionality(row_blocks(W, rows=3), dim=4, products=F64).numpy()
    assert found == pytest.approx(oracles.feature_dimensionality(W), rel=1e-9)


def test_a_tiny_row_beside_an_orthogonal_huge_one_keeps_its_dimension():
    W = torch.tensor([[1.0, 0.0], [0.0, 1e-100]], dtype=F64)
    assert feature_dimensionality([W], dim=2, products=F64).tolist() == [1, 1]


def test_feature_dimensionality_needs_a_row():
    with pytest.raises(TooFewRows):
        feature_dimensionality([torch.zeros(3, 2)], dim=2)


def test_norms_are_those_of_the_used_rows():
    W = np.array([[3.0, 4.0], [0, 0], [0, 1], [np.nan, 1], [2, 0], [0, 10]])
    found = measure_matrix([W], rows=6, dim=2)
    assert found.norms.mean == pytest.approx(np.mean([5, 1, 2, 10]))
    assert found.norms.std == pytest.approx(np.std([5, 1, 2, 10]))
    assert (found.norms.min, found.norms.max, found.norms.median) == pytest.approx((1, 10, 3.5))
    assert found.represented_fraction == 0.75  # longer than 1.75: all but the row of norm 1


def test_huge_norms_do_not_overflow():
    found = norm_statistics(torch.tensor([1e300, 3e300], dtype=F64))
    assert (found.mean, found.std, found.median) == pytest.approx((2e300, 1e300, 2e300))


def test_norms_may_all_be_zero():
    found = norm_statistics(torch.zeros(3))
    assert (found.mean, found.std, found.max, found.median) == (0, 0, 0, 0)


def test_a_row_of_half_the_scale_is_not_represented():
    assert represented_fraction(torch.tensor([0.5, 0.51, 1.0, 0.0]), scale=1.0) == 0.5


def regime(**changed):
    given = {"rows": 1000, "dim": 100, "represented_fraction": 1.0, "mean_square": 0.01}
    return superposition_regime(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "strong"),
        ({"rows": 100}, "none"),
        ({"rows": 101}, "weak"),  # one row more than dimensions: nobody would call it crowded
        ({"represented_fraction": 0.1}, "weak"),
        ({"represented_fraction": 0.5}, "intermediate"),
        ({"mean_square": 0.05}, "intermediate"),  # all represented, but along few directions
        ({"represented_fraction": 0.01}, "intermediate"),
    ],
)
def test_regimes_follow_from_represented_rows_and_overlap(changed, expected):
    assert regime(**changed).name == expected


def test_a_regime_carries_what_it_rests_on():
    found = regime(mean_square=0.02)
    assert (found.represented_fraction, found.dims_per_row, found.overlap_times_dim) == pytest.approx((1, 0.1, 2))


def test_isotropic_rows_are_in_strong_superposition():
    assert measure_matrix([isotropic(500, 20)], rows=500, dim=20).regime.name == "strong"


def test_matrices_must_be_readable_twice():
    with pytest.raises(GeometryError, match="only once"):
        measure_matrix(iter([torch.eye(3)]), rows=3, dim=3)
