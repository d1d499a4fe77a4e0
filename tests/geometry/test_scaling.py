"""Fits recover what was planted, with errors that are true; the figures that follow from published exponents."""

import numpy as np
import pytest
from scipy import stats

from gramian.errors import GeometryError
from gramian.geometry.power_law import fit_power_law
from gramian.geometry.scaling import (
    LossSeries,
    OverlapPoint,
    fit_loss_exponent,
    fit_overlap_exponent,
    width_exponent,
)

WIDTHS = (512.0, 768.0, 1024.0, 1600.0, 2048.0, 4096.0)
OFFSETS = {"pile": 2.1, "c4": 2.6, "books": 3.0}


def planted(rng, *, alpha=0.91, amplitude=476.0, noise=0.02, errors=True):
    sigma = tuple(noise * (1 + i) / 3 for i in range(len(WIDTHS)))  # unequal, so that weights matter
    return [
        LossSeries(
            name,
            WIDTHS,
            tuple(amplitude / m**alpha + B + s * rng.standard_normal() for m, s in zip(WIDTHS, sigma, strict=True)),
            sigma if errors else None,
        )
        for name, B in OFFSETS.items()
    ]


def within(estimate, truth):
    return estimate.low <= truth <= estimate.high


def test_a_loss_fit_recovers_planted_constants_from_exact_losses():
    fit = fit_loss_exponent(planted(np.random.default_rng(0), noise=0, errors=False))
    assert fit.alpha.value == pytest.approx(0.91, rel=1e-6)
    assert fit.amplitude.value == pytest.approx(476, rel=1e-5)
    assert {name: B.value for name, B in fit.offsets.items()} == pytest.approx(OFFSETS, rel=1e-6)


def test_nineteen_of_twenty_intervals_hold_the_planted_constants():
    rng = np.random.default_rng(1)
    draws = 200
    held = np.zeros(3)
    for _ in range(draws):
        fit = fit_loss_exponent(planted(rng))
        held += [within(fit.alpha, 0.91), within(fit.amplitude, 476), within(fit.offsets["c4"], 2.6)]
    # 95 % promised; below 90 % or above 99.5 % is not chance in 200 draws
    assert (held / draws >= 0.90).all(), held / draws
    assert (held / draws <= 0.995).all(), held / draws


def test_intervals_hold_where_the_scatter_has_to_tell_the_errors():
    rng = np.random.default_rng(2)
    draws, held = 200, 0
    for _ in range(draws):
        series = [
            LossSeries(name, WIDTHS, tuple(476 / m**0.91 + B + 0.02 * rng.standard_normal() for m in WIDTHS))
            for name, B in OFFSETS.items()
        ]
        held += within(fit_loss_exponent(series).alpha, 0.91)
    assert 0.90 <= held / draws <= 0.995


def test_the_covariance_is_that_of_repeated_draws():
    rng = np.random.default_rng(3)
    fits = [fit_loss_exponent(planted(rng, noise=0.002)) for _ in range(200)]
    found = np.cov([[f.alpha.value, np.log(f.amplitude.value), f.offsets["pile"].value] for f in fits], rowvar=False)
    promised = fits[0].covariance[:3, :3]
    assert np.sqrt(np.diag(promised)) == pytest.approx(np.sqrt(np.diag(found)), rel=0.2)
    correlation = promised[0, 1] / np.sqrt(promised[0, 0] * promised[1, 1])
    assert correlation > 0.99  # α and ln A are nearly one


def test_chi_square_is_near_one_where_the_given_errors_are_true():
    rng = np.random.default_rng(4)
    fits = [fit_loss_exponent(planted(rng)) for _ in range(50)]
    freedom = 3 * len(WIDTHS) - 5
    assert {f.degrees_of_freedom for f in fits} == {freedom}
    total = sum(f.reduced_chi_square * freedom for f in fits)
    assert stats.chi2.ppf(0.001, 50 * freedom) < total < stats.chi2.ppf(0.999, 50 * freedom)


def test_a_precise_point_outweighs_imprecise_ones():
    exact = [50 / m**0.8 + 2 for m in WIDTHS]
    spoilt = [*exact[:-1], exact[-1] + 0.01]
    trusting = fit_loss_exponent([LossSeries("s", WIDTHS, tuple(spoilt), (1e-3,) * 6)])
    doubting = fit_loss_exponent([LossSeries("s", WIDTHS, tuple(spoilt), (1e-3,) * 5 + (10.0,))])
    assert doubting.alpha.value == pytest.approx(0.8, abs=1e-3)
    assert abs(trusting.alpha.value - 0.8) > 0.01


def test_residuals_are_losses_less_the_fit():
    series = planted(np.random.default_rng(5))
    fit = fit_loss_exponent(series)
    for s in series:
        curve = [fit.amplitude.value / m**fit.alpha.value + fit.offsets[s.name].value for m in s.dims]
        assert fit.residuals[s.name] == pytest.approx(np.subtract(s.losses, curve), abs=1e-9)


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([], "name"),
        ([LossSeries("a", WIDTHS, (1.0,) * 6), LossSeries("a", WIDTHS, (1.0,) * 6)], "name"),
        ([LossSeries("a", (1.0, 2.0, 3.0), (3.0, 2.0, 1.5))], "more points"),
        ([LossSeries("a", (1.0, 1.0, 2.0, 2.0), (3.0, 3.1, 2.0, 2.1))], "three different widths"),
        ([LossSeries("a", WIDTHS, tuple(range(6)))], "do not fall"),
        ([LossSeries("a", (0.0, *WIDTHS[1:]), (1.0,) * 6)], "positive"),
        ([LossSeries("a", WIDTHS, (float("nan"),) * 6)], "finite"),
        ([LossSeries("a", WIDTHS, (1.0,) * 5)], "as many losses"),
        ([LossSeries("a", WIDTHS, (1.0,) * 6, (0.0,) * 6)], "positive and finite"),
        ([LossSeries("a", WIDTHS, (1.0,) * 6), LossSeries("b", WIDTHS, (1.0,) * 6, (1.0,) * 6)], "all series or"),
    ],
)
def test_series_that_cannot_be_fitted_are_refused_with_the_reason(series, message):
    with pytest.raises(GeometryError, match=message):
        fit_loss_exponent(series)


def test_a_slope_and_its_error_are_those_of_linear_regression():
    rng = np.random.default_rng(6)
    x = [10.0, 16.0, 25.0, 40.0, 63.0, 100.0]
    y = [3 * m**-0.95 * np.exp(0.1 * rng.standard_normal()) for m in x]
    expected = stats.linregress(np.log(x), np.log(y))
    fit = fit_power_law(x, y)
    assert fit.slope.value == pytest.approx(expected.slope)
    assert fit.slope.standard_error == pytest.approx(expected.stderr)
    assert fit.log_prefactor.value == pytest.approx(expected.intercept)
    assert fit.log_prefactor.standard_error == pytest.approx(expected.intercept_stderr)
    assert fit.slope.high - fit.slope.value == pytest.approx(2.7764 * expected.stderr, rel=1e-4)  # t, 4 degrees


def test_a_slope_needs_three_points_at_two_widths():
    with pytest.raises(GeometryError, match="three points"):
        fit_power_law([1, 2], [1, 2])
    with pytest.raises(GeometryError, match="two different widths"):
        fit_power_law([2, 2, 2], [1, 2, 3])


def test_families_are_fitted_each_and_together():
    points = [OverlapPoint("a", d, 2 / d) for d in (64, 128, 256)] + [
        OverlapPoint("b", d, 3 / d**0.5) for d in (64, 128, 256)
    ]
    fit = fit_overlap_exponent([*points, OverlapPoint("alone", 128, 0.1)])
    assert fit.families["a"].slope.value == pytest.approx(-1)
    assert fit.families["b"].slope.value == pytest.approx(-0.5)
    assert fit.families["alone"] is None
    assert fit.overall.slope.value == pytest.approx(-0.75)  # equal weights: the mean of both; a mid point tilts nothing


def test_chinchilla_gives_a_width_exponent_of_0_88():
    assert width_exponent(0.35) == pytest.approx(0.882)
