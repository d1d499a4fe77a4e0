"""Fits of packings over HTTP: the published constants come back, hostile input is refused by name."""

import json
import math
from datetime import UTC, datetime

import numpy as np
import pytest

from gramian.analyses import Status, new_id
from gramian.geometry.published_packings import OPTIMISED
from gramian.specs import PackingSpec
from gramian.storage.engine import open_engine
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork


def fit(http, **asked):
    def refuse(constant):
        raise AssertionError(constant)

    answer = http.post("/v1/fits/packing", json=asked)
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_constant=refuse)


def test_the_published_packings_give_the_published_constants(http):
    answer = fit(http, points="published")
    forms = answer["forms"]
    assert answer["points_used"] == 166
    assert forms["jl"]["constants"]["C"] == pytest.approx(0.7068, abs=5e-5)
    assert forms["ratio"]["constants"]["C"] == pytest.approx(1.2934, abs=5e-5)
    published = {"C": 0.4581, "a": 1.0668, "b": 1.4474, "c": 0.9720}
    assert forms["fitted"]["constants"] == pytest.approx(published, abs=5e-5)
    assert [forms[form]["r2"] for form in ("jl", "ratio", "fitted")] == pytest.approx([0.963, 0.9984, 0.9998], abs=5e-4)
    assert [forms[form]["mape"] for form in ("jl", "ratio", "fitted")] == pytest.approx([975, 7.9, 5.4], rel=0.01)


def test_without_k_below_d_the_published_errors_are_small(http):
    answer = fit(http, points="published", exclude_k_below_d=True)
    assert (answer["points_used"], answer["excluded_k_below_d"]) == (160, 6)
    found = [answer["forms"][form]["mape"] for form in ("jl", "ratio", "fitted")]
    assert found == pytest.approx([52.4, 4.5, 1.8], abs=0.06)


def test_the_published_random_draws_give_jls_constant(http):
    answer = fit(http, points="published_random", forms=["jl"])
    assert answer["forms"]["jl"]["constants"]["C"] == pytest.approx(3.029, abs=5e-4)
    assert answer["points_used"] == 256


def test_the_numbers_of_a_fit_agree_with_each_other(http):
    answer = fit(http, points=[list(point) for point in OPTIMISED[:40]], robust=False)
    epsilon = np.array([point[2] for point in answer["points"]])
    for form in answer["forms"].values():
        r = np.array(form["residuals"])
        assert form["rmse"] == pytest.approx(math.sqrt((r**2).mean()))
        assert form["nrmse"] == pytest.approx(form["rmse"] / np.ptp(epsilon))
        assert form["mape"] == pytest.approx(100 * (np.abs(r) / epsilon).mean())
        assert form["r2"] == pytest.approx(1 - (r**2).sum() / ((epsilon - epsilon.mean()) ** 2).sum())
        variances = np.diag(np.array(form["covariance"]["matrix"]))
        assert list(form["standard_errors"].values()) == pytest.approx(np.sqrt(variances))


def test_planted_constants_come_back_and_an_outlier_counts_less_in_a_robust_fit(http):
    points = [[k, d, math.sqrt(0.8 * math.log(k / d) / d)] for k in (500, 2000, 9000) for d in (32, 64, 128, 256)]
    assert fit(http, points=points)["forms"]["ratio"]["constants"]["C"] == pytest.approx(0.8)
    rng = np.random.default_rng(0)
    noisy = [[k, d, epsilon * (1 + 0.01 * rng.standard_normal())] for k, d, epsilon in points]
    noisy[0][2] = 0.9
    plain, robust = (
        abs(fit(http, points=noisy, robust=choice)["forms"]["ratio"]["constants"]["C"] - 0.8)
        for choice in (False, True)
    )
    assert robust < plain / 3


def test_forms_with_more_constants_than_the_points_allow_are_null_and_said_so(http):
    answer = fit(http, points=[[100, 10, 0.5], [200, 10, 0.6]])
    assert answer["forms"]["fitted"] is None
    assert answer["forms"]["ratio"]["constants"]["C"] > 0
    assert {warning["code"] for warning in answer["warnings"]} == {"not_determined"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/"),
        ({"points": []}, "/points"),
        ({"points": [[100, 10, 0.5]]}, "/points"),
        ({"points": [[9, 10, 0.01], [8, 10, 0.02], [10, 10, 0.01]], "forms": ["ratio"]}, "/points"),
        ({"points": [[9, 10, 0.01], [8, 10, 0.02], [10, 10, 0.01]]}, "/points"),
        ({"points": [[100, 10, 0.5], [200, 10, 0.6]], "forms": ["fitted"]}, "/points"),
        ({"points": [[100, 10, 0.5], [200, 10, 0]]}, "/points/1/2"),
        ({"points": [[100, 10, 0.5], [200, 10, -0.1]]}, "/points/1/2"),
        ({"points": [[100, 10, 1.01]]}, "/points/0/2"),
        ({"points": [[1, 10, 0.1]]}, "/points/0/0"),
        ({"points": [[100, 0, 0.1]]}, "/points/0/1"),
        ({"points": [[100, 10]]}, "/points/0/2"),
        ({"points": [["many", 10, 0.5]]}, "/points/0/0"),
        ({"points": "ours"}, "/points"),
        ({"points": [[2, 1, 1]] * 10_001}, "/points"),
        ({"points": "published", "analyses": ["an_1"]}, "/"),
        ({"points": "published", "forms": ["magic"]}, "/forms/0"),
        ({"points": "published", "colour": 1}, "/colour"),
        ({"analyses": []}, "/analyses"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_hostile_input_is_refused_by_name(http, body, pointer):
    answer = http.post("/v1/fits/packing", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), answer.text
    assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer.json()
    assert answer.json()["hint"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_a_number_is_refused(http, number, place):
    point = ["100", "10", "0.5"]
    point[place] = number
    headers = {"Content-Type": "application/json"}
    answer = http.post("/v1/fits/packing", content=f'{{"points": [[{",".join(point)}]]}}', headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"/points/0/{place}"


def test_a_million_points_are_too_large_a_body(http):
    answer = http.post("/v1/fits/packing", json={"points": [[100, 10, 0.5]] * 1_000_000})
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")


def packing(settings, vectors, dim, epsilon, *, status=Status.SUCCEEDED, method="optimized"):
    spec = PackingSpec(vectors=vectors, dim=dim, method=method)
    answer = {"vectors": vectors, "dim": dim, "epsilon": epsilon, "method": method}
    row = AnalysisRow(
        id=new_id("an"),
        kind="packing",
        status=status,
        spec=spec.model_dump(mode="json"),
        identity={},
        dedupe_key=new_id("key"),
        created_at=datetime.now(UTC),
        method_version=spec.method_version,
        answer=answer if status == Status.SUCCEEDED else None,
    )
    engine = open_engine(settings.sqlalchemy_url)
    with UnitOfWork(engine) as uow:
        uow.session.add(row)
    engine.dispose()
    return row.id


def test_analyses_are_fitted_and_those_that_cannot_be_are_named(http, settings):
    points = [(k, d, math.sqrt(0.8 * math.log(k / d) / d)) for k in (500, 2000) for d in (32, 64, 128)]
    ids = [packing(settings, *point) for point in points]
    failed = packing(settings, 100, 10, 0.5, status=Status.FAILED)
    basis = packing(settings, 9, 10, 0.0, method="code")
    answer = fit(http, analyses=[*ids, ids[0], failed, basis])
    assert answer["points"] == [pytest.approx(list(point)) for point in points]
    assert answer["forms"]["ratio"]["constants"]["C"] == pytest.approx(0.8)
    assert {item["analysis_id"]: item["code"] for item in answer["left_out"]} == {failed: "status", basis: "orthogonal"}
    drawn = packing(settings, 300, 10, 0.7, method="random")
    assert "mixed_methods" in [warning["code"] for warning in fit(http, analyses=[*ids, drawn])["warnings"]]
    assert http.post("/v1/fits/packing", json={"analyses": ["an_none"]}).status_code == 404
