"""Fits against planted constants, the published ones, and simulation."""

import math
import subprocess
import sys

import numpy as np
import pytest

from gramian.errors import GeometryError
from gramian.geometry.baselines import welch_bound
from gramian.geometry.capacity import FORMS, epsilon_for
from gramian.geometry.packing_fit import RELATIONS, fit_packing, log10_vectors, packing_epsilon
from gramian.geometry.published_packings import OPTIMISED, RANDOM

PLANTED = {
    "jl": {"C": 2.5},
    "ratio": {"C": 0.8},
    "fitted": {"C": 0.6, "a": 1.1, "b": 1.3, "c": 0.95},
    "welch": {"A": 0.15, "B": 5.0},
}
CELLS = [(k, d) for k in (2000, 4000, 8000, 16_000, 32_000) for d in (32, 64, 128, 256, 512, 1024)]


def planted(form, noise=0.0, seed=0):
    random = np.random.default_rng(seed)
    exact = [packing_epsilon(form, PLANTED[form], k, d) for k, d in CELLS]
    return [(k, d, e + noise * random.standard_normal()) for (k, d), e in zip(CELLS, exact, strict=True)]


# -- published ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "constants", "r2", "mape", "mape_above_d"),
    [
        ("jl", [0.7068], 0.963, 975, 52.4),
        ("ratio", [1.2934], 0.9984, 7.9, 4.5),
        ("fitted", [0.4581, 1.0668, 1.4474, 0.9720], 0.9998, 5.4, 1.8),
    ],
)
def test_the_published_constants_and_errors_come_out_of_the_published_packings(form, constants, r2, mape, mape_above_d):
    found = fit_packing(OPTIMISED, form)
    assert list(found.constants.values()) == pytest.approx(constants, abs=5.1e-5)
    assert found.r2 == pytest.approx(r2, abs=5.1e-4 if form == "jl" else 5.1e-5)
    assert found.mape == pytest.approx(mape, abs=0.5 if form == "jl" else 0.051)
    above = fit_packing(OPTIMISED, form, exclude_k_up_to_d=True)
    assert (found.points, above.points) == (166, 160)
    assert above.mape == pytest.approx(mape_above_d, abs=0.051)


def test_the_constant_of_random_packings_is_the_published_one():
    assert fit_packing(RANDOM, "jl").constants["C"] == pytest.approx(3.029, abs=5e-4)


def test_six_points_make_nine_hundred_per_cent_of_error_and_no_difference_to_the_constants():
    with_them, without = (fit_packing(OPTIMISED, "fitted", exclude_k_up_to_d=flag) for flag in (False, True))
    assert with_them.constants == pytest.approx(without.constants, rel=1e-5)
    jl = fit_packing(OPTIMISED, "jl")
    off = [abs(jl.epsilon(k, d) - e) / e for k, d, e in OPTIMISED if k <= d]
    assert 100 * sum(off) / 166 > 900


@pytest.mark.parametrize("form", ["ratio", "fitted"])
def test_a_relation_is_the_calculators_form_turned_round(form):
    constants = {name: getattr(FORMS[form], name) for name in RELATIONS[form].start}
    for k, d in CELLS:
        assert packing_epsilon(form, constants, k, d) == pytest.approx(epsilon_for(d, k, form=form), rel=1e-12)
    assert packing_epsilon(form, constants, 500, 512) == 0


def test_our_own_relation_starts_at_the_welch_bound_and_stays_above_it():
    for k, d in CELLS:
        assert packing_epsilon("welch", {"A": 0.0, "B": 1.0}, k, d) == pytest.approx(welch_bound(k, d), rel=1e-12)
        assert packing_epsilon("welch", PLANTED["welch"], k, d) > welch_bound(k, d)


@pytest.mark.parametrize("form", PLANTED)
def test_turned_round_a_relation_gives_its_vectors_back(form):
    for k, d in CELLS:
        epsilon = packing_epsilon(form, PLANTED[form], k, d)
        assert log10_vectors(form, PLANTED[form], d, epsilon) == pytest.approx(math.log10(k), abs=1e-6)


# -- planted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("form", PLANTED)
def test_planted_constants_are_found_again(form, robust):
    found = fit_packing(planted(form), form, robust=robust)
    assert found.constants == pytest.approx(PLANTED[form], rel=1e-6)
    assert found.rmse < 1e-9
    assert found.r2 == pytest.approx(1)


def test_a_wrong_point_moves_the_robust_fit_less():
    points = planted("ratio", noise=1e-3)
    points[3] = (*points[3][:2], 0.9)
    plain, robust = (abs(fit_packing(points, "ratio", robust=flag).constants["C"] - 0.8) for flag in (False, True))
    assert robust < 0.02 < plain


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("form", ["ratio", "fitted"])
def test_standard_errors_are_the_spread_of_the_constants_over_noise(form, robust):
    fits = [fit_packing(planted(form, noise=2e-3, seed=seed), form, robust=robust) for seed in range(50)]
    for name in PLANTED[form]:
        spread = np.std([fit.constants[name] for fit in fits], ddof=1)
        stated = np.mean([fit.standard_errors[name] for fit in fits])
        assert stated == pytest.approx(spread, rel=0.3)  # a standard deviation of 50 values is known to 10 per cent


def test_errors_are_the_diagonal_of_a_symmetric_covariance():
    found = fit_packing(OPTIMISED, "fitted")
    covariance = np.array(found.covariance)
    assert np.allclose(covariance, covariance.T)
    assert np.sqrt(np.diag(covariance)) == pytest.approx(list(found.standard_errors.values()))
    assert (np.linalg.eigvalsh(covariance / np.outer(*2 * [np.sqrt(np.diag(covariance))])) > 0).all()


def test_quality_is_measured_on_epsilon():
    points = planted("ratio", noise=2e-3)
    found = fit_packing(points, "ratio")
    measured = np.array([e for *_, e in points])
    off = np.array([found.epsilon(k, d) for k, d, _ in points]) - measured
    assert found.r2 == pytest.approx(1 - off.var() / measured.var(), abs=1e-4)  # the mean of `off` is nearly 0
    assert found.mape == pytest.approx(100 * np.mean(abs(off) / measured))
    assert found.rmse == pytest.approx(math.sqrt(np.mean(off**2)))
    assert found.nrmse == pytest.approx(found.rmse / (measured.max() - measured.min()))


def test_a_packing_without_overlap_has_no_relative_error():
    found = fit_packing([*planted("ratio"), (100, 200, 0.0)], "ratio")
    assert found.mape is None
    assert found.constants["C"] == pytest.approx(0.8)


# -- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "form"),
    [
        ([], "jl"),
        ([(2000, 32, 0.4)], "jl"),
        ([(2000, 32, 0.4)] * 4, "fitted"),
        ([(2000, 32, 0.4)] * 9, "fitted"),  # four constants from one cell
        ([(100, 200, 0.1), (100, 300, 0.1)], "ratio"),  # ratio says nothing of k ≤ d
        ([(1, 32, 0.4), (2000, 32, 0.4)], "jl"),
        ([(2000, 0, 0.4), (2000, 32, 0.4)], "jl"),
        ([(2000, 32, 1.4), (2000, 32, 0.4)], "jl"),
        ([(2000, 32, math.nan), (2000, 32, 0.4)], "jl"),
    ],
)
def test_points_that_determine_nothing_are_refused(points, form):
    with pytest.raises(GeometryError):
        fit_packing(points, form)


def test_fits_load_no_torch():
    program = "import gramian.geometry.packing_fit, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
