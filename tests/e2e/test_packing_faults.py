"""A search that is cut off starts over elsewhere, and one result comes of it."""

import signal

import pytest
from safetensors.numpy import load

from tests.e2e.conftest import TAKEOVER_SECONDS
from tests.e2e.test_packings import largest_cosine
from tests.servers.cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("faults")]


def begun(cluster: Cluster, seed: int) -> str:
    """A search of some seconds that has told of its first steps."""
    question = {"kind": "packing", "vectors": 600, "dim": 32, "steps": 1500, "seed": seed}
    answer = cluster.http.post("/v1/analyses", json=question)
    assert answer.status_code == 202, answer.text
    id = str(answer.json()["id"])
    cluster.until(lambda: cluster.get(id)["progress"]["done"], f"{id} makes steps")
    return id


def check(cluster: Cluster, id: str) -> None:
    ended = cluster.ended(id, seconds=90)
    assert ended["status"] == "succeeded", ended["error"]
    assert (cluster.attempts(id), cluster.results(id)) == (2, 1)
    assert 1300 < ended["result"]["steps"] <= 1500  # a whole search, which may hurry in the end
    vectors = load(cluster.http.get(ended["result"]["links"]["vectors"]).content)["vectors"]
    assert largest_cosine(vectors) == pytest.approx(ended["result"]["epsilon"], abs=1e-12)


def test_a_search_whose_process_is_killed_starts_over(start) -> None:
    cluster = start()
    id = begun(cluster, 1)
    cluster.running_child(id).kill()
    cluster.until(lambda: cluster.attempts(id) == 2, "it is begun again", TAKEOVER_SECONDS + 20)
    check(cluster, id)


def test_a_search_whose_worker_is_asked_to_stop_goes_on_with_another(start) -> None:
    cluster = start(GRAMIAN_STOP_SECONDS="0.1")
    id = begun(cluster, 2)
    cluster.workers[0].send_signal(signal.SIGTERM)
    assert cluster.workers[0].wait(timeout=20) == 0
    assert cluster.get(id)["status"] == "queued"
    cluster.start_worker()
    check(cluster, id)
