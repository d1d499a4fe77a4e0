"""Theory of the toy model, series beside it, and presets."""

import numpy as np
import pytest

from gramian.errors import GeometryError
from gramian.geometry.frequencies import ExponentialLaw, LinearLaw, PowerLaw, activation_probabilities
from gramian.geometry.presets import MOST_DENSE, PRESETS
from gramian.geometry.toy_series import SeriesPoint, summarise_series
from gramian.geometry.toy_theory import (
    ignored_loss,
    inverse_width_region,
    limiting_loss_ratio,
    loss_ratio,
    strong_exponent,
    toy_regime,
    weak_exponent,
)


def powers(exponent, n=100_000):
    return activation_probabilities(PowerLaw(exponent), n)


def test_ignored_features_lose_their_mean_square():
    values = np.random.default_rng(0).uniform(0, 2, 1_000_000)
    p = powers(1.0, 10)
    assert ignored_loss(p, 4) == pytest.approx((values**2).mean() * p[4:].sum(), rel=3e-3)


@pytest.mark.parametrize("alpha", [1.5, 1.75, 2.0])
def test_the_loss_of_ignored_features_falls_as_theory_says_where_features_are_many(alpha):
    p = powers(alpha, 3_000_000)
    dims = np.array([30, 60, 120])
    losses = [ignored_loss(p, m) for m in dims]
    assert -np.polyfit(np.log(dims), np.log(losses), 1)[0] == pytest.approx(weak_exponent(alpha), abs=0.05)


def test_strong_exponents_leave_one_at_an_exponent_of_one_and_a_half():
    assert [strong_exponent(a) for a in (0.0, 1.5, 1.75, 2.0)] == [(1, 1), (1, 1), (1, 1.5), (1, 2)]


@pytest.mark.parametrize(
    ("represented", "expected"),
    [(0, "weak"), (75, "weak"), (76, "intermediate"), (899, "intermediate"), (900, "strong")],
)
def test_toy_regimes_count_represented_features(represented, expected):
    assert toy_regime(features=1000, dims=50, represented=represented) == expected


# -- design questions -----------------------------------------------------------------------------------------


def test_doubling_the_width_halves_the_loss_of_a_strongly_superposed_model():
    found = loss_ratio(powers(1.0), 512, 1024, regime="strong")
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))
    back = loss_ratio(powers(1.0), 1024, 512, regime="strong")
    assert (back.low, back.high) == pytest.approx((2, 2))


def test_steep_frequencies_leave_a_range():
    found = loss_ratio(powers(2.0), 100, 200, regime="strong")
    assert (found.low, found.high) == pytest.approx((0.25, 0.5))


def test_in_weak_superposition_doubling_helps_as_the_tail_sums_say():
    p = powers(1.5)
    found = loss_ratio(p, 512, 1024, regime="weak")
    assert found.low == found.high == pytest.approx(p[1024:].sum() / p[512:].sum())
    assert found.high == pytest.approx(2**-0.5, rel=0.05)  # α − 1 = ½, less what a finite n takes away


@pytest.mark.parametrize("regime", ["weak", "strong"])
@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_many_features_come_near_the_ratio_of_features_without_end(alpha, regime):
    many = loss_ratio(powers(alpha, 3_000_000), 64, 128, regime=regime)
    limit = limiting_loss_ratio(alpha, 64, 128, regime=regime)
    assert (many.low, many.high) == pytest.approx((limit.low, limit.high), rel=0.01)


def test_flat_frequencies_have_no_limit_in_weak_superposition():
    assert limiting_loss_ratio(1.0, 64, 128, regime="weak") is None


@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0), (10, 5), (5, 10)])
def test_widths_without_superposition_have_no_loss_ratio(before, after):
    with pytest.raises(GeometryError, match="fewer dimensions"):
        loss_ratio(powers(1.0, 10), before, after, regime="strong")


def test_features_that_are_never_active_leave_nothing_to_lose():
    with pytest.raises(GeometryError, match="no loss"):
        loss_ratio(np.array([0.5, 0.5, 0.0, 0.0]), 2, 3, regime="weak")


@pytest.mark.parametrize("law", [ExponentialLaw(1000.0), PowerLaw(1.2), LinearLaw()], ids=repr)
def test_the_published_large_run_lies_where_loss_goes_as_inverse_width(law):
    p = activation_probabilities(law, 10_240)
    assert all(inverse_width_region(p, 2**i).holds for i in range(3, 10))  # measured slopes −0.886 to −1.005


def test_few_features_or_steep_ones_lie_outside():
    few = inverse_width_region(powers(1.0, 200), 100)
    assert (few.holds, few.crowded, few.flat) == (False, False, True)
    assert few.floor_times_dim == pytest.approx(100 / 199)
    roomy = inverse_width_region(powers(1.0, 100), 100)
    assert (roomy.holds, roomy.floor_times_dim) == (False, 0)  # nothing has to share
    steep = inverse_width_region(powers(1.8), 100)
    assert (steep.holds, steep.crowded, steep.flat) == (False, True, False)
    assert steep.steepness == pytest.approx(1.8)


# -- series ---------------------------------------------------------------------------------------------------


def test_a_series_recovers_a_planted_exponent_and_its_error():
    rng = np.random.default_rng(0)
    p = powers(1.0, 1000)
    z = []
    for _ in range(100):
        points = [SeriesPoint(m, 5 * m**-0.9 * np.exp(0.1 * rng.standard_normal()), 1000) for m in (10, 20, 40, 80) * 2]
        found = summarise_series(points, p).exponent
        z.append((found.value - 0.9) / found.standard_error)
    assert np.mean(z) == pytest.approx(0, abs=0.4)
    assert np.mean(np.abs(z) < 2.447) == pytest.approx(0.95, abs=0.06)  # Student's t with 6 degrees of freedom


def test_a_weak_series_stands_beside_the_sums_over_its_own_left_out_features():
    p = powers(1.5, 400)
    points = [SeriesPoint(m, 1.1 * ignored_loss(p, k), k) for m, k in ((10, 5), (20, 11), (40, 30))]
    found = summarise_series(points, p)
    assert found.regime == "weak"
    assert found.ignored_losses == pytest.approx([4 / 3 * p[k:].sum() for k in (5, 11, 30)])
    assert found.ignored_exponent == pytest.approx(found.exponent.value)
    assert found.weak_exponent == pytest.approx(0.5)


def test_a_series_of_two_regimes_has_none():
    p = powers(1.0, 100)
    found = summarise_series([SeriesPoint(4, 1.0, 3), SeriesPoint(8, 0.5, 100), SeriesPoint(16, 0.2, 100)], p)
    assert found.regime is None
    assert found.ignored_exponent is None  # nothing is left out where all are represented
    with pytest.raises(GeometryError, match="between 1 and"):
        summarise_series([SeriesPoint(101, 1.0, 3)] * 3, p)


# -- presets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_every_cell_of_a_preset_has_possible_frequencies(name):
    for study in (*PRESETS[name].reduced, *PRESETS[name].full):
        p = [cell.probabilities() for cell in study.cells()]
        assert all(len(q) == study.features and q.max() <= 1 for q in p)
        assert max(study.dims) < study.features


def test_published_grids_have_the_published_sizes():
    sweep, large = PRESETS["fig4"].full
    assert sweep.dims == tuple(int(np.exp(x)) for x in np.linspace(np.log(10) + 1e-9, np.log(100) + 1e-9, 6))
    (all_decays,) = PRESETS["fig3"].full
    assert all_decays.weight_decays == pytest.approx(np.linspace(-1, 1, 10))
    assert [law.exponent for law in all_decays.laws] == pytest.approx(np.linspace(0, 2, 17))
    assert (large.features, large.dims[0], large.dims[-1]) == (10_240, 8, 1024)
    assert pytest.approx(1) == activation_probabilities(PowerLaw(1.0), 1000, density=MOST_DENSE)[0]
