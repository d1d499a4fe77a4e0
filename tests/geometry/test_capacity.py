"""Capacity against the published table, the check values of the forms, and its own inverses."""

import math
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gramian.errors import GeometryError
from gramian.geometry.capacity import (
    FORMS,
    capacity,
    classify_epsilon,
    dimension_for,
    epsilon_for,
    headroom,
    log10_directions,
    log_directions,
    vocabulary_directions,
)
from gramian.geometry.published import PUBLISHED_CAPACITIES

FINITE = [row for row in PUBLISHED_CAPACITIES if row.capacity is not None]
INDETERMINATE = [row for row in PUBLISHED_CAPACITIES if row.capacity is None]
forms = st.sampled_from(list(FORMS))
dims = st.integers(1, 20_000)
epsilons = st.floats(0.001, 1)


def codes(found):
    return [caution.code for caution in found.cautions]


# -- published values -----------------------------------------------------------------------------------------


def test_the_published_table_has_45_models_of_which_31_are_finite():
    assert (len(PUBLISHED_CAPACITIES), len(FINITE), len(INDETERMINATE)) == (45, 31, 14)
    assert len({row.model for row in PUBLISHED_CAPACITIES}) == 45


@pytest.mark.parametrize("row", FINITE, ids=lambda row: row.model)
def test_a_published_capacity_is_reproduced_within_half_a_per_cent(row):
    found = capacity(row.dim, row.epsilon)
    assert found.status == "estimated"
    assert found.directions == pytest.approx(row.capacity, rel=0.005)
    assert classify_epsilon(row.epsilon) == "low_epsilon"


@pytest.mark.parametrize("row", INDETERMINATE, ids=lambda row: row.model)
def test_a_published_indeterminate_model_has_no_headline_number(row):
    found = capacity(row.dim, row.epsilon, epsilon_se=0.001)
    assert found.status == "indeterminate"
    assert (found.directions, found.log10_directions, found.interval_log10) == (None, None, None)
    assert "indeterminate" in codes(found)
    assert found.forms["fitted"] > math.log10(row.dim)  # still computed
    assert classify_epsilon(row.epsilon) == "high_epsilon"


@pytest.mark.parametrize(
    ("dim", "epsilon", "form", "printed"),
    [
        (4096, 0.0645, "fitted", "3.99e+07"),
        (4096, 0.0645, "ratio", "2.16e+09"),
        (4096, 0.0645, "jl_random", "277"),
        (4096, 0.0645, "jl_proven", "8.42"),
        (2048, 0.09, "fitted", "1.98e+07"),
        (3072, 0.09, "fitted", "5.96e+08"),
        (8192, 0.05, "fitted", "2.46e+08"),
        (8192, 0.09, "fitted", "2.03e+14"),
        (2048, 0.25, "fitted", "2.05e+20"),
        (512, 0.0, "fitted", "346"),
    ],
)
def test_forms_give_their_check_values(dim, epsilon, form, printed):
    assert f"{math.exp(log_directions(dim, epsilon, form)):.3g}" == printed


# -- honesty --------------------------------------------------------------------------------------------------


def test_a_tenth_is_indeterminate_and_just_below_is_not():
    assert capacity(4096, 0.1).status == "indeterminate"
    assert capacity(4096, math.nextafter(0.1, 0)).status == "estimated"


@pytest.mark.parametrize("epsilon", [0.0, -1 / 512, -1.0])
def test_without_positive_epsilon_there_are_exactly_d_directions(epsilon):
    found = capacity(512, epsilon)
    assert found.directions == 512
    assert found.log10_directions == pytest.approx(math.log10(512))
    assert "epsilon_not_positive" in codes(found)
    assert set(found.forms.values()) == {math.log(512) / math.log(10)}
    assert "fitted" in found.floored


def test_a_negative_epsilon_is_not_squared_away():
    assert log_directions(512, -0.05) == log_directions(512, 0.0)


def test_forms_below_d_are_lifted_to_d_and_named():
    found = capacity(4096, 0.0645)
    assert found.floored == ("jl_random", "jl_proven")
    assert found.forms["jl_proven"] == pytest.approx(math.log10(4096))
    assert "below_dimension" not in codes(found)


def test_a_headline_below_d_is_lifted_and_said_so():
    found = capacity(512, 0.001)
    assert (found.directions, found.floored[0]) == (512, "fitted")
    assert "below_dimension" in codes(found)


@pytest.mark.parametrize(
    ("dim", "epsilon", "expected"),
    [
        (1024, 0.04, False),  # k = 2.8e3
        (4096, 0.024, False),
        (4096, 0.026, True),
        (4097, 0.024, True),
        (31, 0.09, True),
        (1024, 0.09, True),  # k = 3.4e5
        (1024, 0.001, True),  # k = d = 1024
        (4096, 0.0645, True),
    ],
)
def test_whatever_the_fit_did_not_see_is_flagged(dim, epsilon, expected):
    found = capacity(dim, epsilon)
    assert found.extrapolated is expected
    assert ("extrapolated" in codes(found)) is expected


def test_a_large_error_of_epsilon_rules_the_interval():
    found = capacity(4096, 0.0645, epsilon_se=0.02)
    low, high = found.interval_log10
    assert low == pytest.approx(log10_directions(4096, 0.0645 - 1.96 * 0.02), abs=0.05)
    assert high == pytest.approx(log10_directions(4096, 0.0645 + 1.96 * 0.02), abs=0.05)
    assert low < found.log10_directions < high


def test_an_interval_never_falls_below_d_nor_far_beyond_epsilon_one():
    low, high = capacity(512, 0.01, epsilon_se=10.0).interval_log10
    assert low == pytest.approx(math.log10(512))
    assert high == pytest.approx(log10_directions(512, 1.0), abs=0.05)


def test_an_error_of_epsilon_widens_the_interval_that_the_constants_give():
    (low, high), (lower, higher) = (capacity(4096, 0.0645, epsilon_se=se).interval_log10 for se in (None, 0.001))
    assert lower < low < high < higher


def test_cautions_are_codes_with_a_message():
    [(code, message)] = capacity(4096, 0.0645).cautions
    assert code == "extrapolated"
    assert "32,000" in message


def test_a_measured_epsilon_above_one_is_indeterminate():
    found = capacity(2, 1.9)
    assert found.status == "indeterminate"
    assert found.forms == capacity(2, 1.0).forms


CLASSES = {
    -1.0: "low_epsilon",
    0.09999: "low_epsilon",
    0.1: "intermediate",
    0.2: "intermediate",
    0.2001: "high_epsilon",
}


@pytest.mark.parametrize(("epsilon", "expected"), CLASSES.items())
def test_classes_meet_at_a_tenth_and_a_fifth(epsilon, expected):
    assert classify_epsilon(epsilon) == expected


def test_headroom_is_what_the_vocabulary_leaves():
    assert vocabulary_directions(32_000, tied=True) == 32_000
    assert vocabulary_directions(32_000, tied=False) == 64_000
    assert headroom(1e5, 64_000) == 36_000
    assert headroom(5e4, 64_000) == -14_000


# -- the relation and its inverses ----------------------------------------------------------------------------


@given(dims, epsilons, forms)
def test_epsilon_for_the_directions_of_an_epsilon_is_that_epsilon(dim, epsilon, form):
    assume(log_directions(dim, epsilon, form) > math.log(dim) * (1 + 1e-9) + 1e-9)
    log10 = log10_directions(dim, epsilon, form)
    assert epsilon_for(dim, log10_directions=log10, form=form) == pytest.approx(epsilon, rel=1e-6)


@given(dims, st.integers(1, 20_000), forms)
def test_orthogonal_directions_need_no_epsilon(dim, directions, form):
    assume(directions <= dim)
    assert epsilon_for(dim, directions, form=form) == 0


@given(st.floats(-1, 1), st.floats(0, 12), forms)
def test_dimension_for_is_the_smallest_that_suffices(epsilon, log10, form):
    def offers(dim):
        return max(log10_directions(dim, epsilon, form), math.log10(dim))

    dim = dimension_for(epsilon, log10_directions=log10, form=form)
    assert offers(dim) >= log10 * (1 - 1e-12)
    assert dim == 1 or offers(dim - 1) < log10


@given(st.integers(1, 10**9), forms)
def test_at_epsilon_zero_every_direction_needs_its_own_dimension(directions, form):
    assert dimension_for(0.0, directions, form=form) == directions


@pytest.mark.parametrize("digits", [0, 1, 3, 9])
def test_a_count_and_its_logarithm_ask_for_the_same_dimension(digits):
    assert dimension_for(0.0, log10_directions=digits) == dimension_for(0.0, 10**digits) == 10**digits


@given(dims, epsilons, epsilons, forms)
def test_more_epsilon_never_means_fewer_directions(dim, one, other, form):
    low, high = sorted((one, other))
    assert log_directions(dim, low, form) <= log_directions(dim, high, form)


@given(dims, dims, epsilons, forms)
def test_more_dimensions_never_mean_fewer_directions(one, other, epsilon, form):
    low, high = sorted((one, other))
    assert log_directions(low, epsilon, form) <= log_directions(high, epsilon, form)


@given(st.integers(100, 20_000), st.floats(0.01, 0.98), forms)
def test_every_form_increases_with_epsilon_and_with_d_epsilon_squared(dim, epsilon, form):
    here = log_directions(dim, epsilon, form)
    assert here < log_directions(dim, epsilon * 1.01, form)  # dε² grows by ε
    assert here < log_directions(dim + dim // 100, epsilon, form)  # and by d


@pytest.mark.parametrize("form", FORMS)
def test_nothing_overflows_in_the_widest_spaces(form):
    assert 300 < log10_directions(16_384, 1.0, form) < 10_000
    assert math.isfinite(log10_directions(2**53, 1.0, form))


def test_a_count_too_large_for_a_float_is_given_by_its_logarithm_alone():
    found = capacity(2**20, 0.0999)
    assert found.status == "estimated"
    assert found.directions is None
    assert found.log10_directions > 308


def test_counts_beyond_a_float_can_be_asked_for_by_their_logarithm():
    dim = dimension_for(0.09, log10_directions=1000)
    assert epsilon_for(dim, log10_directions=1000) == pytest.approx(0.09, rel=1e-4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: log_directions(0, 0.05),
        lambda: log_directions(2**53 + 1, 0.05),
        lambda: log_directions(10, math.nan),
        lambda: log_directions(10, math.inf),
        lambda: log_directions(10, 1.001),
        lambda: log_directions(10, -1.001),
        lambda: capacity(0, 0.05),
        lambda: capacity(10, math.nan),
        lambda: capacity(10, 2.24),
        lambda: capacity(10, -1.1),
        lambda: capacity(10, 0.05, epsilon_se=-1),
        lambda: capacity(10, 0.05, epsilon_se=math.nan),
        lambda: epsilon_for(10),
        lambda: epsilon_for(10, 5, log10_directions=1),
        lambda: epsilon_for(10, 0.5),
        lambda: epsilon_for(10, math.inf),
        lambda: epsilon_for(10, log10_directions=-1),
        lambda: epsilon_for(10, log10_directions=math.nan),
        lambda: dimension_for(2, 100),
        lambda: dimension_for(0.1, 0),
    ],
)
def test_values_out_of_range_are_refused(call):
    with pytest.raises(GeometryError):
        call()


def test_more_directions_than_a_form_has_are_refused_with_its_most():
    with pytest.raises(GeometryError, match="at most"):
        epsilon_for(10, 1e30)


def test_more_directions_than_any_dimension_has_are_refused():
    with pytest.raises(GeometryError, match="dimensions"):
        dimension_for(0.0, log10_directions=400)


@pytest.mark.parametrize("module", ["capacity", "published", "baselines", "bounds", "design", "sensitivity"])
def test_the_closed_forms_load_no_numerics(module):
    program = f"import gramian.geometry.{module}, sys; print(sorted({{'torch', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
