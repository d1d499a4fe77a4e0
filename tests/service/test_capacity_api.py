"""The calculators over HTTP: published rows, brackets, headroom, tables and pictures; no server, no database."""

import csv
import io
import json
import math
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from gramian.geometry.bounds import brackets
from gramian.geometry.forms import log10_directions
from gramian.geometry.published import PUBLISHED_CAPACITIES
from gramian.settings import Settings
from service.app import create_app
from service.representations import csv_text
from service.schemas.capacity import MatrixCapacity

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    settings = Settings(data_dir=tmp_path_factory.mktemp("data"), redis_url="unix:///nowhere")
    return TestClient(create_app(settings))  # not entered: the calculators need nothing of what a start opens


def ask(http, path, **parameters):
    answer = http.get(f"/v1/capacity{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer


def table(answer):
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


def drawing(answer):
    assert answer.headers["content-type"].startswith("image/svg+xml")
    return ElementTree.fromstring(answer.text)  # noqa: S314  (our own)


def said(answer):
    return [element.text for element in drawing(answer).iter(f"{SVG}text")]


# -- capacity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", PUBLISHED_CAPACITIES, ids=lambda row: row.model)
def test_a_published_row_is_reproduced_within_half_a_per_cent_or_is_indeterminate(http, row):
    answer = ask(http, "", dim=row.dim, epsilon=row.epsilon).json()
    if row.capacity is None:
        assert (answer["status"], answer["directions"], answer["position"]) == ("indeterminate", None, None)
        assert "vacuous" in answer["reason"]
    else:
        assert answer["status"] == "estimated"
        assert answer["directions"] == pytest.approx(row.capacity, rel=0.005)
        low, high = answer["interval_log10"]
        assert low < answer["log10_directions"] < high
        assert answer["position"]["place"] == "below_existing"  # all 31: see docs/theory.md
    bounds = answer["bounds"]
    assert bounds["exists_log10"] <= bounds["upper_lines_log10"] <= bounds["upper_log10"]


def test_the_brackets_of_llama_2_7b_stand_beside_the_estimate(http):
    answer = ask(http, "", dim=4096, epsilon=0.0645, epsilon_standard_error=0.0005).json()
    bounds = {name: round(value, 3) for name, value in answer["bounds"].items() if name.endswith("_log10")}
    assert bounds["random_log10"] == 2.293
    assert bounds["greedy_log10"] == 4.443
    assert bounds["constructed_log10"] == bounds["exists_log10"] == 13.546
    assert bounds["upper_log10"] == 24.106
    assert answer["bounds"]["construction"] == {"m": 12, "h": 4, "terms": 3, "coherence": 0.0625}
    assert "certainly exists" in answer["position"]["words"]
    assert answer["extrapolation"]["directions_decades"] == pytest.approx(7.6 - math.log10(32_000), abs=0.01)
    assert answer["uncertainty"]["log10_se"] == pytest.approx(
        math.hypot(answer["uncertainty"]["epsilon_log10_se"], answer["uncertainty"]["constants_log10_se"])
    )
    assert [warning["code"] for warning in answer["warnings"]] == ["extrapolated"]


@pytest.mark.parametrize("epsilon", [-1, 0, 1e-300, 0.1, 1])
@pytest.mark.parametrize("dim", [1, 2, 16_384, 2**53])
def test_no_corner_gives_anything_but_strict_json(http, dim, epsilon):
    def refuse(constant):
        raise AssertionError(constant)

    answer = json.loads(ask(http, "", dim=dim, epsilon=epsilon).text, parse_constant=refuse)
    codes = [warning["code"] for warning in answer["warnings"]]
    unbounded = epsilon == 1 and dim > 1
    assert ("unbounded" in codes) == unbounded
    assert (answer["bounds"]["upper_log10"] is None) == unbounded
    if epsilon <= 0:
        assert answer["directions"] == dim
        assert answer["bounds"]["exists_log10"] == answer["bounds"]["upper_log10"] == math.log10(dim)


def test_headroom_is_the_estimate_less_one_or_two_directions_a_token(http):
    untied, tied = (
        ask(http, "", dim=4096, epsilon=0.0645, vocabulary=32_000, tied=tied).json() for tied in (False, True)
    )
    assert (untied["vocabulary_directions"], tied["vocabulary_directions"]) == (64_000, 32_000)
    assert untied["headroom"] == pytest.approx(untied["directions"] - 64_000)
    assert tied["headroom"] == pytest.approx(tied["directions"] - 32_000)
    assert untied["log10_headroom"] == pytest.approx(math.log10(untied["headroom"]))


def test_a_vocabulary_larger_than_the_capacity_leaves_a_negative_headroom(http):
    answer = ask(http, "", dim=512, epsilon=0.0, vocabulary=1000).json()
    assert (answer["headroom"], answer["log10_headroom"]) == (512 - 2000, None)


def test_headroom_beyond_doubles_is_its_logarithm(http):
    answer = ask(http, "", dim=2**20, epsilon=0.0999, vocabulary=1000).json()
    assert (answer["directions"], answer["headroom"]) == (None, None)
    assert answer["log10_headroom"] == answer["log10_directions"] > 308


def test_tying_without_a_vocabulary_is_refused(http):
    answer = http.get("/v1/capacity", params={"dim": 512, "epsilon": 0.05, "tied": True})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/tied")


@pytest.mark.parametrize(
    "query", ["dim=0&epsilon=0.1", "dim=8&epsilon=nan", "dim=8&epsilon=1.1", "dim=8", "dim=8&epsilon=0.1&vocabulary=-1"]
)
@pytest.mark.parametrize("suffix", ["", ".csv", ".svg", "/sensitivity", "/sensitivity.svg"])
def test_impossible_values_are_problems_in_every_form(http, suffix, query):
    answer = http.get(f"/v1/capacity{suffix}?{query}")
    if "vocabulary" in query and "sensitivity" in suffix:
        assert answer.status_code == 200  # which has no use for it
    else:
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_a_result_stored_before_the_brackets_is_still_read():
    old = {
        "status": "estimated",
        "reason": None,
        "directions": 4e7,
        "log10_directions": 7.6,
        "interval_log10": [7.5, 7.7],
        "extrapolated": True,
        "forms": {"fitted": 4e7},
        "forms_log10": {"fitted": 7.6},
        "forms_below_dim": [],
        "warnings": [],
        "headroom": 3.9e7,
    }
    read = MatrixCapacity(**old, vocabulary_directions=64_000)
    assert (read.bounds, read.uncertainty, read.headroom) == (None, None, 3.9e7)


# -- sensitivity and design -----------------------------------------------------------------------------------


def test_a_curve_has_the_form_the_brackets_and_the_elasticities(http):
    answer = ask(http, "/sensitivity", dim=4096, epsilon=0.05, start=0.02, stop=0.08, points=7).json()
    assert [point["epsilon"] for point in answer["points"]] == pytest.approx([0.02 + 0.01 * i for i in range(7)])
    assert answer["elasticity"]["epsilon"] == pytest.approx(9.4, abs=0.05)
    for point in answer["points"]:
        assert point["log10_directions"] == pytest.approx(log10_directions(4096, point["epsilon"]))
        assert point["upper_log10"] == brackets(4096, point["epsilon"]).upper_log10


def test_a_design_is_the_least_multiple_for_its_target(http):
    answer = ask(http, "/design", directions=1e8, epsilon=0.09, multiple=128, vocabulary=128_000, tied=True).json()
    assert (answer["smallest_dimension"], answer["dimension"]) == (2514, 2560)
    assert answer["log10_directions_there"] == pytest.approx(log10_directions(2560, 0.09))
    assert answer["headroom"] == pytest.approx(10 ** answer["log10_directions_there"] - 128_000)
    assert ask(http, "/design", directions=1e8, epsilon=0.09).json()["dimension"] == 2560
    assert ask(http, "/design", log10_directions=1000, epsilon=0.09).json()["headroom"] is None


@pytest.mark.parametrize(
    "query", ["epsilon=0.09", "epsilon=0.09&directions=5&log10_directions=1", "epsilon=0&log10_directions=40"]
)
def test_an_impossible_target_is_a_problem(http, query):
    assert http.get(f"/v1/capacity/design?{query}").status_code == 422


# -- tables ---------------------------------------------------------------------------------------------------


def test_a_row_of_capacity_has_the_numbers_of_the_answer(http):
    parameters = {"dim": 4096, "epsilon": 0.0645, "epsilon_standard_error": 0.0005}
    [row] = table(ask(http, ".csv", **parameters))
    answer = ask(http, "", **parameters).json()
    assert float(row["log10_directions"]) == answer["log10_directions"]
    assert float(row["interval_log10.low"]) == answer["interval_log10"][0]
    assert float(row["bounds.upper_log10"]) == answer["bounds"]["upper_log10"]
    assert row["warnings"] == "extrapolated"


def test_rows_of_all_answers_have_the_same_columns(http):
    headers = {
        ask(http, ".csv", dim=dim, epsilon=epsilon).text.splitlines()[0]
        for dim in (1, 4096, 2**20)
        for epsilon in (-1, 0, 0.0645, 0.0999, 0.3, 1)
    }
    assert len(headers) == 1


def test_the_tables_of_curves_and_designs_are_those_of_their_answers(http):
    rows = table(ask(http, "/sensitivity.csv", dim=512, epsilon=0.05, points=5))
    points = ask(http, "/sensitivity", dim=512, epsilon=0.05, points=5).json()["points"]
    assert [{name: float(cell) for name, cell in row.items()} for row in rows] == points
    [row] = table(ask(http, "/design.csv", directions=1e8, epsilon=0.09))
    assert (row["dimension"], row["multiple"]) == ("2560", "64")


def test_text_that_a_spreadsheet_would_run_is_disarmed_and_numbers_are_not():
    text = csv_text(["a"], [["=1+1"], ["+x"], ["-x"], ["@x"], ["\tx"], [-1.5], [None], ["a,b"], ["x=1"]])
    assert [row[0] if row else "" for row in csv.reader(io.StringIO(text))] == [
        "a", "'=1+1", "'+x", "'-x", "'@x", "'\tx", "-1.5", "", "a,b", "x=1"
    ]  # fmt: skip


# -- pictures -------------------------------------------------------------------------------------------------


def test_the_scale_shows_every_bracket_and_the_estimate(http):
    words = said(ask(http, ".svg", dim=4096, epsilon=0.0645))
    for label in (
        "random draws: 10^2.293",
        "greedy choice: 10^4.443",
        "explicit code and axes: 10^13.55",
        "reachable by descent (published fit): 10^7.601",
        "at most, for lines: 10^23.32",
        "at most, for the sphere: 10^24.11",
    ):
        assert label in words


def test_what_is_unbounded_or_indeterminate_is_drawn_as_none(http):
    words = said(ask(http, ".svg", dim=16_384, epsilon=1))
    assert "at most, for lines: none" in words
    assert "reachable by descent (published fit): none" in words


def test_curves_lie_where_their_numbers_are(http):
    answer = ask(http, "/sensitivity.svg", dim=4096, epsilon=0.0645, points=11)
    paths = [element.get("d") for element in drawing(answer).iter(f"{SVG}path")]
    curves = [path for path in paths if path.count("L") == 10]
    assert len(curves) == 3  # at most, by descent, certainly
    heights = [[float(step.split()[1]) for step in path[1:].split("L")] for path in curves]
    for at_most, by_descent in zip(heights[0], heights[1], strict=True):
        assert at_most < by_descent  # y runs downward
    assert "indeterminate from here" in said(answer)


@pytest.mark.parametrize(
    "query",
    [
        "sensitivity.svg?dim=1&epsilon=0.5&over=dim",
        "sensitivity.svg?dim=16384&epsilon=1&start=0",
        "sensitivity.svg?dim=9007199254740992&epsilon=0.5&points=3",
        "sensitivity.svg?dim=512&epsilon=-0.5&start=-1&stop=1",
        "design.svg?epsilon=0&directions=1&multiple=1",
        "design.svg?epsilon=0.09&log10_directions=1000",
    ],
)
def test_a_picture_of_any_corner_is_well_formed(http, query):
    answer = http.get(f"/v1/capacity/{query}")
    assert answer.status_code == 200
    drawing(answer)
    assert "nan" not in answer.text.lower().replace("nance", "")
    assert "inf" not in answer.text.lower()
