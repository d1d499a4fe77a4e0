"""Our own form, with the constants that are in the code."""

from math import log10

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.packing_report import read_cells, refits
from gramian.errors import GeometryError
from gramian.geometry import our_form
from gramian.geometry.bounds import brackets
from gramian.geometry.our_form import our_estimate
from gramian.geometry.packing_fit import log10_vectors, packing_epsilon

dims = st.integers(2, 16_384)
epsilons = st.floats(0.01, 0.5)


def test_the_constants_are_those_of_the_committed_packings() -> None:
    fit = refits(read_cells())["welch"]
    assert fit.constants == pytest.approx({"A": our_form.A, "B": our_form.B}, rel=1e-6)
    assert np.array(fit.covariance) == pytest.approx(np.array(our_form.COVARIANCE), rel=1e-5)


@given(dims, epsilons)
def test_it_is_the_fitted_relation_turned_round(dim: int, epsilon: float) -> None:
    found = our_estimate(dim, epsilon).log10_directions
    constants = {"A": our_form.A, "B": our_form.B}
    if log10(dim + 1) + 0.01 < found < 290:  # the relation knows no part of a vector beyond a basis
        assert found == pytest.approx(log10_vectors("welch", constants, dim, epsilon), abs=1e-6)
        assert packing_epsilon("welch", constants, 10**found, dim) == pytest.approx(epsilon, rel=1e-6)


@given(dims, epsilons, st.floats(1.01, 2))
def test_it_increases_in_epsilon_and_never_lies_below_a_basis(dim: int, epsilon: float, factor: float) -> None:
    found = our_estimate(dim, epsilon).log10_directions
    assert found >= log10(dim) * (1 - 1e-12)
    assert our_estimate(dim, min(epsilon * factor, 1.0)).log10_directions >= found


@given(st.integers(32, 4096), st.floats(0.02, 0.2))
def test_it_never_exceeds_what_cannot_be(dim: int, epsilon: float) -> None:
    assert our_estimate(dim, epsilon).log10_directions <= brackets(dim, epsilon).upper_lines_log10 + 1e-9


def test_the_error_is_that_of_drawn_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = our_estimate(1024, 0.06)
    drawn = np.random.default_rng(0).multivariate_normal([our_form.A, our_form.B], our_form.COVARIANCE, size=2000)
    found = []
    for A, B in drawn:
        monkeypatch.setattr(our_form, "A", A)
        monkeypatch.setattr(our_form, "B", B)
        found.append(our_estimate(1024, 0.06).log10_directions)
    assert np.std(found) == pytest.approx(expected.log10_se, rel=0.1)


@pytest.mark.parametrize(("dim", "epsilon"), [(1, 0.5), (1, 1), (8, 0), (8, -0.5), (2**53, 1), (2**53, 1e-9), (2, 1)])
def test_corners_have_an_answer(dim: int, epsilon: float) -> None:
    found = our_estimate(dim, epsilon)
    assert np.isfinite(found).all()
    assert found.log10_directions >= log10(dim) * (1 - 1e-12)


@pytest.mark.parametrize(("dim", "epsilon"), [(0, 0.1), (2**53 + 1, 0.1), (8, 1.5), (8, float("nan"))])
def test_what_is_no_space_or_no_cosine_is_refused(dim: int, epsilon: float) -> None:
    with pytest.raises(GeometryError):
        our_estimate(dim, epsilon)
