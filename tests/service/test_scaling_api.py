"""Fits over widths and questions of width over HTTP: planted constants come back, hostile input is refused by name."""

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import optimize, stats

from tests.service.answers import refused, strict

SVG = "{http://www.w3.org/2000/svg}"
WIDTHS = (512, 768, 1024, 1600, 2048, 4096)
OFFSETS = {"pile": 2.1, "c4": 2.6, "books": 3.0}


def planted(alpha=0.91, amplitude=476.0, noise=0.0, rng=None, errors=False):
    series = []
    for name, offset in OFFSETS.items():
        scatter = noise * rng.standard_normal(len(WIDTHS)) if rng else np.zeros(len(WIDTHS))
        points = [[m, amplitude / m**alpha + offset + s] for m, s in zip(WIDTHS, scatter, strict=True)]
        series.append({"name": name, "points": points} | ({"standard_errors": [noise] * len(WIDTHS)} if errors else {}))
    return {"series": series}


# -- loss against width ---------------------------------------------------------------------------------------


def test_planted_constants_come_back_from_exact_losses(http):
    fit = strict(http.post("/v1/fits/scaling", json=planted()))
    assert fit["alpha"]["value"] == pytest.approx(0.91, rel=1e-5)
    assert fit["amplitude"]["value"] == pytest.approx(476, rel=1e-4)
    assert {o["name"]: o["value"] for o in fit["offsets"]} == pytest.approx(OFFSETS, rel=1e-5)
    assert [o["points"] for o in fit["offsets"]] == [6, 6, 6]
    assert (fit["points_used"], fit["degrees_of_freedom"]) == (18, 13)


def test_values_and_errors_are_those_of_an_independent_fit(http):
    body = planted(noise=0.01, rng=np.random.default_rng(0))
    fit = strict(http.post("/v1/fits/scaling", json=body))
    widths = np.array([m for s in body["series"] for m, _ in s["points"]])
    losses = np.array([loss for s in body["series"] for _, loss in s["points"]])
    member = np.repeat(np.arange(3), len(WIDTHS))

    def model(m, alpha, log_amplitude, *offsets):
        return np.exp(log_amplitude) * m**-alpha + np.array(offsets)[member]

    values, covariance = optimize.curve_fit(model, widths, losses, p0=[1, 6, 2, 2, 2])
    quantile = stats.t.ppf(0.975, 13)
    errors = np.sqrt(np.diag(covariance))
    assert fit["alpha"]["value"] == pytest.approx(values[0], rel=1e-4)
    assert fit["alpha"]["standard_error"] == pytest.approx(errors[0], rel=1e-3)
    assert fit["alpha"]["low"] == pytest.approx(values[0] - quantile * errors[0], rel=1e-3)
    assert fit["offsets"][1]["standard_error"] == pytest.approx(errors[3], rel=1e-3)
    assert np.array(fit["covariance"]["matrix"]) == pytest.approx(covariance, rel=5e-3)
    assert fit["covariance"]["parameters"][:3] == ["alpha", "log_amplitude", "offset:pile"]
    assert [r["residual"] for r in fit["residuals"]] == pytest.approx(losses - model(widths, *values), abs=1e-5)


def test_the_interval_of_the_exponent_holds_the_planted_one_in_nineteen_of_twenty_requests(http):
    rng = np.random.default_rng(1)
    fits = [strict(http.post("/v1/fits/scaling", json=planted(noise=0.02, rng=rng, errors=True))) for _ in range(60)]
    held = np.mean([fit["alpha"]["low"] <= 0.91 <= fit["alpha"]["high"] for fit in fits])
    assert held >= 0.85  # 60 draws of 95 %: below has a chance of one in a thousand
    assert np.mean([fit["reduced_chi_square"] for fit in fits]) == pytest.approx(1, abs=0.2)


def test_a_fit_stands_beside_the_known_exponents(http):
    fit = strict(http.post("/v1/fits/scaling", json=planted(noise=0.01, rng=np.random.default_rng(2), errors=True)))
    known = {item["name"]: item for item in fit["beside"]}
    assert (known["published"]["value"], known["published"]["standard_error"]) == (0.91, 0.04)
    assert known["chinchilla"]["value"] == pytest.approx(0.882)
    joint = math.hypot(fit["alpha"]["standard_error"], 0.04)
    assert known["published"]["standard_errors_away"] == pytest.approx((fit["alpha"]["value"] - 0.91) / joint)


def test_residuals_are_drawn_a_dot_a_point(http):
    body = planted(noise=0.01, rng=np.random.default_rng(3))
    body["series"][0]["name"] = "<script>&"
    answer = http.post("/v1/fits/scaling.svg", json=body)
    assert answer.headers["content-type"].startswith("image/svg+xml")
    drawing = ElementTree.fromstring(answer.text)  # noqa: S314  (our own)
    dots = list(drawing.iter(f"{SVG}circle"))
    assert len(dots) == 18 + 3  # and the legend
    assert "<script>&" in [element.text for element in drawing.iter(f"{SVG}text")]
    residuals = [r["residual"] for r in strict(http.post("/v1/fits/scaling", json=body))["residuals"]]
    heights = [float(dot.get("cy")) for dot in dots[:18]]
    assert np.corrcoef(residuals, heights)[0, 1] == pytest.approx(-1, abs=1e-3)  # y runs downward


GOOD = [[m, 50 / m + 2] for m in WIDTHS]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/series"),
        ({"series": []}, "/series"),
        ({"series": [{"name": "a", "points": []}]}, "/series/0/points"),
        ({"series": [{"name": "a", "points": GOOD[:3]}]}, "/series"),
        ({"series": [{"name": "a", "points": [[8, 2.0]] * 20}]}, "/series"),
        ({"series": [{"name": "a", "points": [[m, 3.0] for m in WIDTHS]}]}, "/series"),
        ({"series": [{"name": "a", "points": [[m, m / 100] for m in WIDTHS]}]}, "/series"),
        ({"series": [{"name": "a", "points": GOOD}, {"name": "a", "points": GOOD}]}, "/series"),
        ({"series": [{"name": "a", "points": GOOD, "standard_errors": [0.1]}]}, "/series/0"),
        (
            {"series": [{"name": "a", "points": GOOD, "standard_errors": [0.1] * 6}, {"name": "b", "points": GOOD}]},
            "/series",
        ),
        ({"series": [{"name": "a", "points": [[0, 2.0], *GOOD]}]}, "/series/0/points/0/0"),
        ({"series": [{"name": "a", "points": [*GOOD, [64, -1]]}]}, "/series/0/points/6/1"),
        ({"series": [{"name": "a", "points": [*GOOD, [64, 1e300]]}]}, "/series/0/points/6/1"),
        ({"series": [{"name": "a", "points": [*GOOD, [64]]}]}, "/series/0/points/6/1"),
        ({"series": [{"name": "a", "points": [*GOOD, ["x", 1]]}]}, "/series/0/points/6/0"),
        ({"series": [{"name": "a\0", "points": GOOD}]}, "/series/0/name"),
        ({"series": [{"name": "a" * 101, "points": GOOD}]}, "/series/0/name"),
        ({"series": [{"name": "a", "points": GOOD * 400}]}, "/series/0/points"),
        ({"series": [{"name": str(i), "points": GOOD * 5} for i in range(99)]}, "/series"),
        ({"series": [{"name": str(i), "points": GOOD} for i in range(101)]}, "/series"),
        ({"series": [{"name": "a", "points": GOOD}], "colour": 1}, "/colour"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".svg"])
def test_series_that_cannot_be_fitted_are_refused_by_their_place(http, suffix, body, pointer):
    refused(http.post(f"/v1/fits/scaling{suffix}", json=body), pointer)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(http, literal):
    body = json.dumps({"series": [{"name": "a", "points": [[8, 77777.5], *GOOD]}]}).replace("77777.5", literal)
    refused(
        http.post("/v1/fits/scaling", content=body, headers={"Content-Type": "application/json"}),
        "/series/0/points/0/1",
    )


def test_a_million_points_are_refused_before_they_are_read(http):
    body = b'{"series": [{"name": "a", "points": [' + b",".join([b"[64,3.1]"] * 1_000_000) + b"]}]}"
    for path in ("/v1/fits/scaling", "/v1/analyses"):
        answer = http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
        assert (answer.json()["status"], answer.json()["instance"]) == (413, path)


@pytest.mark.parametrize("seed", range(20))
def test_any_losses_are_fitted_or_refused(http, seed):
    rng = np.random.default_rng(seed)
    series = [
        {
            "name": str(i),
            "points": [
                [float(m), float(loss)]
                for m, loss in zip(2.0 ** rng.uniform(0, 53, 5), 10.0 ** rng.uniform(-12, 12, 5), strict=True)
            ],
        }
        for i in range(rng.integers(1, 4))
    ]
    answer = http.post("/v1/fits/scaling", json={"series": series})
    if answer.status_code == 200:
        strict(answer)
        assert http.post("/v1/fits/scaling.svg", json={"series": series}).status_code == 200
    else:
        refused(answer, "/series")


# -- questions of width ---------------------------------------------------------------------------------------


def ask(http, path, **parameters):
    return strict(http.get(f"/v1/scaling/{path}", params=parameters))


def test_chinchillas_exponent_in_parameters_is_0_88_in_width(http):
    answer = ask(http, "width-exponent")
    assert (answer["parameter_exponent"], answer["parameters_per_width"]) == (0.35, 2.52)
    assert round(answer["width_exponent"], 2) == 0.88
    assert ask(http, "width-exponent", parameter_exponent=0.5, parameters_per_width=2)["width_exponent"] == 1


def test_doubling_the_width_halves_the_loss_of_strong_superposition(http):
    answer = ask(http, "loss-ratio", **{"from": 1024, "to": 2048, "exponent": 1})
    assert (answer["from"], answer["to"]) == (1024, 2048)
    assert (answer["strong"]["low"], answer["strong"]["high"]) == (0.5, 0.5)
    assert answer["strong"]["exponent_low"] == answer["strong"]["exponent_high"] == pytest.approx(1)
    assert answer["weak"]["low"] is None
    assert answer["published"]["low"] < 2**-0.91 < answer["published"]["high"]


def test_weak_superposition_loses_the_tail(http):
    finite = ask(http, "loss-ratio", **{"from": 100, "to": 200, "exponent": 2, "features": 1000})
    tails = [sum(i**-2 for i in range(m + 1, 1001)) for m in (100, 200)]
    assert finite["weak"]["low"] == pytest.approx(tails[1] / tails[0])
    without_end = ask(http, "loss-ratio", **{"from": 100, "to": 200, "exponent": 2})
    assert without_end["weak"]["high"] == pytest.approx(0.5)
    assert (without_end["strong"]["low"], without_end["strong"]["high"]) == pytest.approx((0.25, 0.5))


def test_the_region_of_inverse_width_is_told_in_numbers_and_words(http):
    inside = ask(http, "region", features=50_000, dim=1024, exponent=1)
    assert inside["holds"]
    assert inside["words"].startswith("yes")
    few = ask(http, "region", features=2000, dim=1024, exponent=1)
    conditions = {c["name"]: c for c in few["conditions"]}
    assert (few["holds"], conditions["crowded"]["holds"], conditions["flat"]["holds"]) == (False, False, True)
    assert conditions["crowded"]["value"] == pytest.approx((2000 - 1024) / 1999)
    steep = ask(http, "region", features=50_000, dim=1024, exponent=2)
    assert (steep["holds"], steep["expected_exponent"]) == (False, pytest.approx({"low": 1, "high": 2}))
    roomy = ask(http, "region", features=512, dim=1024, law="linear")
    assert "no superposition" in roomy["words"]
    dying = ask(http, "region", features=10_000, dim=5000, law="exponential", scale=2)
    assert dying["expected_exponent"]["high"] is None  # frequencies that underflow have no steepness


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("loss-ratio?from=0&to=2&exponent=1", "/from"),
        ("loss-ratio?from=1&to=2", "/exponent"),
        ("loss-ratio?from=1&to=2&exponent=nan", "/exponent"),
        ("loss-ratio?from=1&to=2&law=linear", "/features"),
        ("loss-ratio?from=100&to=200&exponent=1&features=150", "/features"),
        ("loss-ratio?from=1&to=2&law=exponential&exponent=1", "/exponent"),
        ("loss-ratio?from=1&to=2&law=exponential&features=50", "/scale"),
        ("loss-ratio?from=1&to=2&law=power&exponent=1&scale=3", "/scale"),
        ("loss-ratio?from=1&to=2&law=zipf", "/law"),
        ("region?features=1&dim=2&exponent=1", "/features"),
        ("region?features=100000000&dim=2&exponent=1", "/features"),
        ("region?features=100&dim=1&exponent=1", "/dim"),
        ("region?features=100&dim=2", "/exponent"),
        ("width-exponent?parameter_exponent=inf", "/parameter_exponent"),
        ("width-exponent?parameters_per_width=0", "/parameters_per_width"),
    ],
)
def test_impossible_questions_are_refused_by_parameter(http, query, pointer):
    refused(http.get(f"/v1/scaling/{query}"), pointer)


@pytest.mark.parametrize("exponent", [0, 1, 1.5, 10])
@pytest.mark.parametrize(("before", "to"), [(1, 1), (1, 2**53), (2**53, 1)])
def test_no_corner_gives_anything_but_strict_json(http, exponent, before, to):
    ask(http, "loss-ratio", **{"from": before, "to": to, "exponent": exponent})
