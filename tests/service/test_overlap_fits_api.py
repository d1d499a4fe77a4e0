"""Fits of overlap against width over stored analyses: what may be compared, and what is left out and why."""

from datetime import UTC, datetime
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from gramian.analyses import Status, new_id
from gramian.specs import EmbeddingSpec, HubSource
from gramian.storage.engine import open_engine
from gramian.storage.tables import AnalysisRow, LabelRow
from gramian.storage.unit_of_work import UnitOfWork
from tests.service.answers import refused, strict
from tests.storage.questions import matrix

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def stored(settings):
    """Ids by name. Overlaps are c·d^slope exactly; and one of everything that has to be left out."""
    planted = [
        ("a/one-1b", 64, 1000, 2 / 64, {}),
        ("a/one-2b", 128, 1000, 2 / 128, {}),
        ("a/one-7b", 256, 1000, 2 / 256, {}),
        ("b/two-small", 64, 1000, 3 / 64**0.5, {}),
        ("b/two-medium", 128, 1000, 3 / 128**0.5, {}),
        ("b/two-large", 256, 1000, 3 / 256**0.5, {}),
        ("c/wide", 2048, 1000, 0.0, {}),
        ("c/old", 128, 1000, 0.5, {"method_version": "1"}),
        ("c/headless", 128, 1000, 0.5, {"tying": {"finding": "no_head"}}),
        ("c/failed", 128, 1000, 0.5, {"status": Status.FAILED}),
        ("c/copy", 64, 1000, 2 / 64, {"digest": "sha256:a/one-1b"}),
        ("d/labelled", 128, 1000, 2 / 128, {"label": "one of ours"}),
    ]
    engine = open_engine(settings.sqlalchemy_url)
    ids = {}
    with UnitOfWork(engine) as uow:
        for model_id, dim, rows, mean_square, more in planted:
            spec = EmbeddingSpec(source=HubSource(type="hub", model_id=model_id))
            row = AnalysisRow(
                id=new_id("an"),
                kind="embedding",
                status=more.get("status", Status.SUCCEEDED),
                spec=spec.model_dump(mode="json"),
                identity={},
                dedupe_key=model_id,
                model_id=model_id,
                created_at=datetime.now(UTC),
                finished_at=datetime.now(UTC),
                method_version=more.get("method_version", EmbeddingSpec.method_version),
                tying=more.get("tying", {"finding": "tied", "flag": None, "reason": "planted"}),
            )
            row.labels = [LabelRow(name="family", value=more["label"])] if "label" in more else []
            uow.session.add(row)
            uow.session.flush()
            ids[model_id] = row.id
            if row.status == Status.SUCCEEDED:
                numbers = matrix(row.id, dim=dim, epsilon=0.05, capacity=5.0)
                numbers.rows = numbers.rows_used = rows
                numbers.cosine_mean_square, numbers.overlap_times_dim = mean_square, dim * mean_square
                numbers.digest = more.get("digest", f"sha256:{model_id}")
                uow.session.add(numbers)
    engine.dispose()
    return ids


def test_a_slope_is_that_of_linear_regression_over_what_may_be_compared(http, stored):
    fit = strict(http.post("/v1/fits/overlap", json={"query": {}}))
    points = fit["points"]
    assert {p["model_id"] for p in points} == {m for m in stored if m[0] in "ab"} - {"a/one-1b"} | {
        "c/copy",  # newer than the other with the same bytes
        "d/labelled",
    }
    expected = stats.linregress(np.log([p["dim"] for p in points]), np.log([p["mean_squared_overlap"] for p in points]))
    assert fit["slope"]["value"] == pytest.approx(expected.slope)
    assert fit["slope"]["standard_error"] == pytest.approx(expected.stderr)
    assert fit["slope"]["standard_errors_away"] == pytest.approx((expected.slope + 1) / expected.stderr)
    assert fit["expected_slope"] == -1


def test_families_are_fitted_apart(http, stored):
    names = [id for model, id in stored.items() if model[0] in "abd"]
    fit = strict(http.post("/v1/fits/overlap", json={"analyses": names}))
    families = {family["name"]: family for family in fit["families"]}
    assert set(families) == {"a/one", "b/two", "one of ours"}
    assert families["a/one"]["slope"]["value"] == pytest.approx(-1)
    assert families["b/two"]["slope"]["value"] == pytest.approx(-0.5)
    assert (families["one of ours"]["points"], families["one of ours"]["slope"]) == (1, None)
    assert [warning["code"] for warning in fit["warnings"]] == ["mixed_families"]


def test_what_may_not_be_compared_is_left_out_with_the_reason(http, stored):
    fit = strict(http.post("/v1/fits/overlap", json={"analyses": [*stored.values(), stored["c/wide"]]}))
    left_out = {item["model_id"]: item for item in fit["left_out"]}
    assert {name: item["code"] for name, item in left_out.items()} == {
        "c/wide": "rows",
        "c/old": "method_version",
        "c/headless": "role",
        "c/failed": "status",
        "c/copy": "same_content",
    }
    assert stored["a/one-1b"] in left_out["c/copy"]["reason"]


@pytest.mark.parametrize(
    ("query", "models"),
    [
        ({"q": "ONE-"}, {"a/one-2b", "a/one-7b", "a/one-1b"}),
        (
            {"min_dim": 64, "max_dim": 128, "q": "b"},
            {"b/two-small", "b/two-medium", "a/one-1b", "a/one-2b", "d/labelled"},
        ),
    ],
)
def test_a_query_narrows(http, stored, query, models):
    fit = strict(http.post("/v1/fits/overlap", json={"query": query}))
    assert {p["model_id"] for p in fit["points"]} == models


def test_residuals_of_overlaps_are_drawn(http, stored):
    answer = http.post("/v1/fits/overlap.svg", json={"query": {"q": "one-"}})
    assert len(list(ElementTree.fromstring(answer.text).iter(f"{SVG}circle"))) == 3 + 1  # noqa: S314  (our own)


def test_overlaps_that_cannot_be_fitted_are_refused(http, stored):
    one = stored["a/one-1b"]
    refused(http.post("/v1/fits/overlap", json={"analyses": [one]}), "/analyses")
    refused(http.post("/v1/fits/overlap", json={"analyses": []}), "/analyses")
    refused(http.post("/v1/fits/overlap", json={"analyses": ["x"] * 501}), "/analyses")
    refused(http.post("/v1/fits/overlap", json={"analyses": [one], "query": {}}), "/")
    refused(http.post("/v1/fits/overlap", json={}), "/")
    refused(http.post("/v1/fits/overlap", json={"query": {"q": "nobody"}}), "/query")
    problem = refused(http.post("/v1/fits/overlap", json={"query": {"q": "headless"}}), "/query")
    assert "input_embedding" in problem["hint"]
    assert http.post("/v1/fits/overlap", json={"analyses": ["an_nothing"]}).status_code == 404
