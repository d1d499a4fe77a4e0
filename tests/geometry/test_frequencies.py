"""Frequency laws against their formulas."""

import numpy as np
import pytest

from gramian.errors import GeometryError
from gramian.geometry.frequencies import (
    ExponentialLaw,
    LinearLaw,
    ListedLaw,
    PowerLaw,
    activation_probabilities,
    steepness,
    tail_sum,
)

LAWS = (PowerLaw(0.0), PowerLaw(1.5), ExponentialLaw(40.0), LinearLaw(), ListedLaw(tuple(range(1, 101))))


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("density", [1.0, 0.25])
def test_probabilities_fall_and_add_up_to_the_density(law, density):
    p = activation_probabilities(law, 100, density=density)
    assert p.shape == (100,)
    assert p.sum() == pytest.approx(density)
    assert (np.diff(p) <= 0).all()
    assert (p > 0).all()


def test_each_law_has_its_shape():
    i = np.arange(1, 101)
    for law, shape in (
        (PowerLaw(1.2), i**-1.2),
        (ExponentialLaw(40.0), np.exp(-(i - 1) / 40)),
        (LinearLaw(), (101 - i) / 100),
        (ListedLaw((*range(1, 100), 500)), [500, *range(99, 0, -1)]),
    ):
        assert activation_probabilities(law, 100) == pytest.approx(np.divide(shape, np.sum(shape)))


def test_a_density_may_make_the_first_feature_certain_but_not_more():
    most = sum(1 / i for i in range(1, 101))  # where p_1 = 1
    assert activation_probabilities(PowerLaw(1.0), 100, density=most)[0] == pytest.approx(1)
    with pytest.raises(GeometryError, match=r"probability 1\.01") as refused:
        activation_probabilities(PowerLaw(1.0), 100, density=most * 1.01)
    assert f"{most:.6g}" in refused.value.hint


@pytest.mark.parametrize(
    ("law", "features", "density"),
    [
        (PowerLaw(1.0), 0, 1.0),
        (PowerLaw(1.0), 10, 0.0),
        (PowerLaw(1.0), 10, float("nan")),
        (PowerLaw(-1.0), 10, 1.0),
        (PowerLaw(float("nan")), 10, 1.0),
        (ListedLaw((1.0, 2.0)), 3, 1.0),
        (ListedLaw((1.0, -2.0)), 2, 1.0),
        (ListedLaw((0.0, 0.0)), 2, 1.0),
        (ListedLaw((1.0, float("inf"))), 2, 1.0),
    ],
)
def test_impossible_frequencies_are_refused(law, features, density):
    with pytest.raises(GeometryError):
        activation_probabilities(law, features, density=density)


def test_an_exponential_law_needs_a_scale():
    with pytest.raises(GeometryError):
        ExponentialLaw(0.0)


def test_a_tail_sum_tells_the_active_features_beyond():
    p = activation_probabilities(PowerLaw(1.5), 50)
    assert tail_sum(p, 7) == pytest.approx(sum(p[i] for i in range(7, 50)))
    assert (tail_sum(p, 0), tail_sum(p, 50)) == pytest.approx((1, 0))


def test_steepness_is_the_exponent_between_the_first_and_the_last_rank():
    assert steepness(activation_probabilities(PowerLaw(1.7), 300), 20) == pytest.approx(1.7)
    assert steepness(activation_probabilities(ExponentialLaw(1000.0), 10_240), 1024) == pytest.approx(
        1023 / 1000 / np.log(1024)
    )
    assert steepness(activation_probabilities(ListedLaw((1.0, 0.0)), 2), 2) == np.inf
    with pytest.raises(GeometryError):
        steepness(activation_probabilities(PowerLaw(1.0), 10), 11)
