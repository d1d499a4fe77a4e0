"""Sweeps of toy models as jobs: numbers that their own weights bear out, and no finished cell trained twice."""

import signal
import time

import numpy as np
import psutil
import pytest
from safetensors.numpy import load
from sqlalchemy import select

from gramian.geometry.toy_measures import run_cell
from gramian.storage.tables import ToyCellRow
from gramian.toy_specs import ToyModelSpec
from tests.servers.cluster import Cluster
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

SMALL = {
    "kind": "toy_model",
    "features": 60,
    "dims": [4, 8, 16],
    "weight_decay": [-1.0, 1.0],
    "frequencies": {"law": "power", "exponent": [1.5]},
    "batch": 64,
    "steps": 200,
    "bias_std": 0.1,
}


def ask(http, body, *, wait: int = 60):
    answer = http.post("/v1/analyses", json=body, headers={"Prefer": f"wait={wait}"} if wait else {})
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


@pytest.fixture(scope="module")
def sweep(service: ServiceProcess):
    answer = ask(service.http, SMALL)
    assert answer["status"] == "succeeded", answer["error"]
    return answer


def test_a_sweep_has_every_cell_and_a_series_for_each_setting(sweep) -> None:
    result = sweep["result"]
    assert [(c["weight_decay"], c["dim"]) for c in result["cells"]] == [(g, m) for g in (-1.0, 1.0) for m in (4, 8, 16)]
    assert [c["number"] for c in result["cells"]] == list(range(6))
    for series, decay in zip(result["series"], (-1.0, 1.0), strict=True):
        cells = [c for c in result["cells"] if c["weight_decay"] == decay]
        slope = np.polyfit(np.log([c["dim"] for c in cells]), np.log([c["loss"] for c in cells]), 1)[0]
        assert series["alpha"]["value"] == pytest.approx(-slope)
        assert series["alpha"]["standard_error"] > 0
        assert series["theory"]["weak"]["alpha_without_end"] == pytest.approx(0.5)
        assert series["theory"]["strong"] == {"alpha_low": 1, "alpha_high": 1}
    strong, weak = result["cells"][:3], result["cells"][3:]
    assert all(c["represented_fraction"] >= 0.9 for c in strong)
    assert all(c["represented_fraction"] < 0.9 for c in weak)
    assert sweep["provenance"]["device"] == "cpu"


def test_the_weights_that_are_downloaded_bear_the_numbers_out(service: ServiceProcess, sweep) -> None:
    for cell in sweep["result"]["cells"]:
        file = service.http.get(cell["links"]["weights"])
        assert file.status_code == 200
        tensors = load(file.content)
        W = tensors["W"].astype(np.float64)
        assert (W.shape, tensors["feature_loss"].shape) == ((60, cell["dim"]), (60,))
        norms = np.linalg.norm(W, axis=1)
        cosines = (W / norms[:, None]) @ (W / norms[:, None]).T
        assert cell["represented"] == (norms > 0.5).sum()
        assert cell["norm"]["mean"] == pytest.approx(norms.mean())
        overlap = (np.square(cosines).sum() - 60) / (60 * 59)
        assert cell["mean_squared_overlap"] == pytest.approx(overlap, rel=1e-5)
        assert cell["mean_squared_overlap"] >= cell["welch_floor"] > 0
        p = np.arange(1, 61) ** -1.5 / (np.arange(1, 61) ** -1.5).sum()
        assert cell["ignored_loss"] == pytest.approx(4 / 3 * p[cell["represented"] :].sum())


def test_a_cell_is_what_training_it_alone_gives(sweep) -> None:
    spec = ToyModelSpec.model_validate(SMALL)
    for cell, told in list(zip(spec.cells(), sweep["result"]["cells"], strict=True))[:2]:
        assert told["loss"] == pytest.approx(run_cell(cell).loss, rel=1e-3)


def test_the_same_question_put_otherwise_is_answered_at_once(service: ServiceProcess, sweep) -> None:
    again = ask(service.http, SMALL | {"frequencies": {"law": "power", "exponent": 1.5}, "density": 1, "seed": 0})
    assert (again["id"], again["deduplicated"]) == (sweep["id"], True)


def test_cells_are_listed_one_by_one(service: ServiceProcess, sweep) -> None:
    listed = service.http.get(f"/v1/analyses/{sweep['id']}/cells").json()
    assert listed["items"] == sweep["result"]["cells"]
    assert listed["total"] == 6
    upload = service.http.get("/v1/analyses/an_nothing/cells")
    assert upload.status_code == 404


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"features": 10**9}, "/features"),
        ({"dims": [60]}, "/dims"),
        ({"dims": [4, "x"]}, "/dims/1"),
        ({"frequencies": {"law": "zipf"}}, "/frequencies"),
        ({"frequencies": {"law": "power", "exponent": [-1]}}, "/frequencies/exponent/0"),
        ({"frequencies": {"law": "list", "probabilities": [0.5]}}, "/frequencies/probabilities"),
        ({"density": 50}, "/density"),
        ({"steps": 0}, "/steps"),
        ({"replicates": 1000}, "/replicates"),
        ({"preset": "fig9"}, "/preset"),
        ({"preset": "fig3"}, "/features"),
        ({"colour": 1}, "/colour"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_by_its_place(service: ServiceProcess, changes, pointer: str) -> None:
    answer = service.http.post("/v1/analyses", json=SMALL | changes)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer.text


def test_a_sweep_that_diverges_fails_by_the_name_of_its_cell(service: ServiceProcess) -> None:
    wild = SMALL | {"weight_decay": [-1.0, 10.0], "learning_rate": 1.0, "warmup_steps": 0}
    answer = ask(service.http, wild)
    assert (answer["status"], answer["error"]["code"]) == ("failed", "training_diverged")
    assert "γ = 10" in answer["error"]["detail"]
    assert len(service.http.get(f"/v1/analyses/{answer['id']}/cells").json()["items"]) == 3  # what came before is kept


# -- ended in the middle --------------------------------------------------------------------------------------

LONG = {
    "kind": "toy_model",
    "features": 300,
    "dims": [4, 5, 6, 7, 8, 9, 10, 11],
    "weight_decay": -1.0,
    "frequencies": {"law": "power", "exponent": 1.0},
    "batch": 256,
    "steps": 400,
}


def attempts(cluster: Cluster, id: str, *, finished: bool = False) -> dict[int, int]:
    """How often each cell was begun."""
    query = select(ToyCellRow.number, ToyCellRow.attempts).where(ToyCellRow.analysis_id == id)
    if finished:
        query = query.where(ToyCellRow.result.is_not(None))
    with cluster.engine.connect() as connection:
        return {row.number: row.attempts for row in connection.execute(query)}


def half_done(cluster: Cluster, seed: int) -> tuple[str, dict[int, int]]:
    """A sweep of which half of the cells are finished, and those."""
    id = ask(cluster.http, LONG | {"seed": seed}, wait=0)["id"]
    cluster.until(lambda: len(attempts(cluster, id, finished=True)) >= 4, "half of the cells are finished")
    return id, attempts(cluster, id, finished=True)


def assert_complete_and_nothing_twice(cluster: Cluster, id: str, before: dict[int, int]) -> None:
    answer = cluster.ended(id, seconds=120)
    assert answer["status"] == "succeeded", answer["error"]
    assert [cell["dim"] for cell in answer["result"]["cells"]] == LONG["dims"]
    counted = attempts(cluster, id)
    assert set(counted) == set(range(8))
    assert {number: counted[number] for number in before} == dict.fromkeys(before, 1)
    assert sum(counted.values()) <= 8 + 1  # the one that was being trained
    assert cluster.results(id) == 1


def test_a_sweep_whose_worker_is_killed_goes_on_from_its_finished_cells(start) -> None:
    cluster = start()
    id, before = half_done(cluster, seed=1)
    child = cluster.running_child(id)
    cluster.workers[0].kill()
    child.kill()
    cluster.start_worker()
    assert_complete_and_nothing_twice(cluster, id, before)
    assert cluster.attempts(id) == 2


def test_a_sweep_whose_worker_is_stopped_goes_on_from_its_finished_cells(start) -> None:
    cluster = start(GRAMIAN_STOP_SECONDS="0.1")
    id, before = half_done(cluster, seed=2)
    cluster.workers[0].send_signal(signal.SIGTERM)
    cluster.until(lambda: cluster.get(id)["status"] == "queued", "it is given back")
    cluster.start_worker()
    assert_complete_and_nothing_twice(cluster, id, before)


def test_a_sweep_gives_its_turn_away_between_cells_and_goes_on(start) -> None:
    cluster = start(GRAMIAN_JOB_TIMEOUT_SECONDS="10")  # a turn is a quarter of it
    id = ask(cluster.http, LONG | {"seed": 6, "steps": 800}, wait=0)["id"]
    answer = cluster.ended(id, seconds=120)
    assert answer["status"] == "succeeded", answer["error"]
    assert attempts(cluster, id) == dict.fromkeys(range(8), 1)
    assert cluster.attempts(id) > 1
    assert any("had a turn" in (event.data.get("message") or "") for event in cluster.events(id))


def test_a_sweep_outlives_more_kills_than_a_job_that_gets_nowhere_may(start) -> None:
    cluster = start(GRAMIAN_MAX_DELIVERIES="2")
    id = ask(cluster.http, LONG | {"seed": 3}, wait=0)["id"]
    for finished in (1, 3, 5):
        cluster.until(lambda n=finished: len(attempts(cluster, id, finished=True)) >= n, "some are finished")
        cluster.running_child(id).kill()
    answer = cluster.ended(id, seconds=120)
    assert answer["status"] == "succeeded", answer["error"]
    assert sum(attempts(cluster, id).values()) <= 8 + 3


def test_a_cancelled_sweep_stops_within_two_seconds_and_keeps_its_finished_cells(start) -> None:
    cluster = start()
    id, before = half_done(cluster, seed=4)
    child = cluster.running_child(id)
    asked = time.monotonic()
    assert cluster.http.post(f"/v1/analyses/{id}/cancel").json()["status"] == "cancelled"
    cluster.until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child is gone")
    assert time.monotonic() - asked < 2
    listed = cluster.http.get(f"/v1/analyses/{id}/cells").json()["items"]
    assert {cell["number"] for cell in listed} >= set(before)
    assert cluster.http.get(listed[0]["links"]["weights"]).status_code == 200


def test_progress_tells_cells_and_steps(start) -> None:
    cluster = start()
    id, _ = half_done(cluster, seed=5)
    step = cluster.get(id)["progress"]
    assert (step["stage"], step["unit"], step["total"]) == ("train", "steps", 8 * 400)
    assert "cells finished" in step["message"]
    assert 0.2 < step["fraction"] < 1
    cluster.http.post(f"/v1/analyses/{id}/cancel")
