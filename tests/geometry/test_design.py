"""Sensitivity, design targets and the distance from the fit, against differences and searches."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramian.errors import GeometryError
from gramian.geometry.capacity import log10_headroom
from gramian.geometry.design import design_for
from gramian.geometry.extrapolation import FITTED_EPSILON_ROOT_DIM, extrapolation
from gramian.geometry.forms import FORMS, log10_directions, log_directions
from gramian.geometry.published_packings import OPTIMISED
from gramian.geometry.sensitivity import sensitivity_at, sensitivity_curve

forms = st.sampled_from(list(FORMS))

# -- sensitivity ----------------------------------------------------------------------------------------------


@given(st.integers(10_000, 2**40), st.floats(0.02, 0.9), forms)
def test_elasticities_are_logarithmic_derivatives(dim, epsilon, form):
    at = sensitivity_at(dim, epsilon, form)
    if at.dim_elasticity == 1.0 and at.epsilon_elasticity == 0.0:
        assert log_directions(dim, epsilon, form) <= math.log(dim)
        return
    step = dim // 1000
    rise = log_directions(dim, epsilon * 1.0001, form) - log_directions(dim, epsilon / 1.0001, form)
    assert at.epsilon_elasticity == pytest.approx(rise / (2 * math.log(1.0001)), rel=1e-4)
    rise = log_directions(dim + step, epsilon, form) - log_directions(dim - step, epsilon, form)
    assert at.dim_elasticity == pytest.approx(rise / math.log((dim + step) / (dim - step)), rel=1e-4)


@pytest.mark.parametrize(("epsilon", "expected"), [(0.05, 9), (0.0999, 24)])
def test_the_elasticity_at_4096_dimensions_has_its_check_values(epsilon, expected):
    assert math.floor(sensitivity_at(4096, epsilon).epsilon_elasticity) == expected


def test_where_the_form_lies_below_d_only_d_counts():
    at = sensitivity_at(512, 0.001)
    assert (at.epsilon_elasticity, at.dim_elasticity) == (0.0, 1.0)
    assert at.log10_directions == pytest.approx(math.log10(512))


def test_a_curve_runs_over_epsilon_in_even_steps():
    curve = sensitivity_curve(4096, 0.05, start=0.01, stop=0.09, points=9)
    assert [point.epsilon for point in curve] == pytest.approx([0.01 * i for i in range(1, 10)])
    assert {point.dim for point in curve} == {4096}
    assert [point.log10_directions for point in curve[3:]] == [
        pytest.approx(log10_directions(4096, point.epsilon)) for point in curve[3:]
    ]


def test_a_curve_over_dimensions_lists_each_integer_once():
    curve = sensitivity_curve(4, 0.5, over="dim", points=50)
    assert [point.dim for point in curve] == [2, 3, 4, 5, 6, 7, 8]


def test_a_curve_stays_finite_in_the_widest_spaces():
    for point in sensitivity_curve(16_384, 1.0, start=0.0, points=11):
        assert all(math.isfinite(value) for value in vars(point).values())
    assert all(point.dim <= 2**53 for point in sensitivity_curve(2**53, 0.5, over="dim", points=5))


@pytest.mark.parametrize(
    "call",
    [
        lambda: sensitivity_curve(512, 0.05, points=1),
        lambda: sensitivity_curve(512, 0.05, points=1001),
        lambda: sensitivity_curve(512, 0.05, start=0.2, stop=0.1),
        lambda: sensitivity_curve(512, 0.05, stop=math.inf),
        lambda: sensitivity_curve(512, 0.05, start=math.nan),
        lambda: sensitivity_curve(512, 0.0),
        lambda: sensitivity_curve(512, 0.05, stop=1.5),
        lambda: sensitivity_curve(512, 0.05, over="dim", start=-3, stop=0.2),
        lambda: design_for(0.09, 1e8, multiple=0),
        lambda: design_for(0.0, 2**53, multiple=2**20 - 1),
    ],
)
def test_impossible_ranges_are_refused(call):
    with pytest.raises(GeometryError):
        call()


# -- design ---------------------------------------------------------------------------------------------------


def test_a_hundred_million_directions_at_epsilon_nine_hundredths_need_2514_dimensions():
    found = design_for(0.09, 1e8, multiple=64)
    assert (found.smallest_dim, found.dim) == (2514, 2560)
    assert log10_directions(2513, 0.09) < 8 <= log10_directions(2514, 0.09)
    assert found.log10_directions == pytest.approx(log10_directions(2560, 0.09))
    assert found.spare_log10 == pytest.approx(found.log10_directions - 8)
    assert found.brackets.dim == 2560


@given(st.floats(0.02, 0.5), st.floats(1, 200), st.sampled_from([1, 64, 128, 1000]), forms)
def test_a_design_is_the_least_multiple_that_suffices(epsilon, log10, multiple, form):
    found = design_for(epsilon, log10_directions=log10, multiple=multiple, form=form)
    assert found.dim % multiple == 0
    assert found.smallest_dim <= found.dim < found.smallest_dim + multiple
    assert found.log10_directions >= log10 * (1 - 1e-12)


# -- headroom -------------------------------------------------------------------------------------------------


@given(st.floats(0, 15), st.integers(0, 10**15))
def test_the_headroom_is_the_difference_as_a_logarithm(log10, used):
    left = 10**log10 - used
    if left > 1e-3 * 10**log10:
        assert log10_headroom(log10, used) == pytest.approx(math.log10(left), abs=1e-9)
    elif left < -1e-3 * used:
        assert log10_headroom(log10, used) is None


def test_headroom_beyond_doubles_is_its_logarithm():
    assert log10_headroom(5000.0, 10**18) == 5000.0


# -- distance from the fit ------------------------------------------------------------------------------------


def test_the_fitted_range_of_epsilon_root_d_is_that_of_the_packings():
    products = [row.epsilon * math.sqrt(row.dim) for row in OPTIMISED if row.vectors > row.dim]
    assert pytest.approx((min(products), max(products)), abs=1e-3) == FITTED_EPSILON_ROOT_DIM


def test_every_fitted_packing_lies_inside():
    for row in OPTIMISED:
        assert extrapolation(row.dim, row.epsilon, math.log10(row.vectors)).inside


def test_llama_2_70b_lies_eleven_orders_of_magnitude_and_twice_the_dimension_outside():
    far = extrapolation(8192, 0.09962, log10_directions(8192, 0.09962))
    assert far.directions_decades == pytest.approx(15.91 - math.log10(32_000), abs=0.01)
    assert far.dim_factor == 2
    assert far.epsilon_root_dim == pytest.approx(9.017, abs=1e-3)
    assert far.epsilon_root_dim_factor == pytest.approx(9.017 / 3.0607, abs=1e-3)
    assert not far.inside
    assert "11.4 orders of magnitude above" in far.words
    assert "2 times the largest dimension" in far.words


def test_what_lies_below_the_fit_is_said_to():
    far = extrapolation(16, 0.01, math.log10(16))
    assert far.directions_decades == pytest.approx(math.log10(16 / 2000))
    assert far.dim_factor == 0.5
    assert "below" in far.words
    assert extrapolation(1024, 0.04, 3.68).words.startswith("inside")
