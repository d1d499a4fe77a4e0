"""One key, one job, one answer: for a thousand at once, and across the death of who was about to answer."""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.servers.cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("faults")]

AT_ONCE = 1000


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    """One for all threads and for every address that the API has in turn."""
    with httpx2.Client(limits=httpx2.Limits(max_connections=50), timeout=60, trust_env=False) as client:
        yield client


def post(client: httpx2.Client, cluster: Cluster, body: dict[str, Any], key: str) -> httpx2.Response:
    return client.post(f"{cluster.api.url}/v1/analyses", json=body, headers={"Idempotency-Key": key})


def insisting(client: httpx2.Client, cluster: Cluster, body: dict[str, Any], key: str) -> httpx2.Response:
    """As a good client does: ask again with the same key until there is an answer."""
    deadline = time.monotonic() + 90
    while True:
        try:
            answer = post(client, cluster, body, key)
            if answer.status_code != 409:  # the first one is still being answered
                return answer
        except httpx2.TransportError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)


def question(cluster: Cluster, seed: int) -> dict[str, Any]:
    return {"kind": "embedding", "source": cluster.upload(seed)}


def test_a_thousand_at_once_with_one_key_are_one_job_and_one_body(start, client) -> None:
    cluster = start(workers=0)
    body, other = question(cluster, 200), question(cluster, 201)
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: post(client, cluster, body, "thousand"), range(AT_ONCE)))
        refused = list(pool.map(lambda _: post(client, cluster, other, "thousand"), range(AT_ONCE)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    id = answers[0].json()["id"]
    assert cluster.get(id)["callers"] == 1  # the same wish a thousand times
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(422, "idempotency_key_reused")}
    cluster.start_worker()
    assert cluster.ended(id)["status"] == "succeeded"
    assert (cluster.attempts(id), cluster.results(id)) == (1, 1)


def test_the_first_answer_is_repeated_though_the_api_died_between_commit_and_answer(start, client) -> None:
    cluster = start()
    body = question(cluster, 210)
    cluster.valkey.process.send_signal(signal.SIGSTOP)  # the push comes after the commit, and hangs
    lost: list[Exception] = []

    def ask() -> None:
        try:
            httpx2.post(f"{cluster.api.url}/v1/analyses", json=body, headers={"Idempotency-Key": "died"}, timeout=60)
        except httpx2.TransportError as error:
            lost.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    upload_id = body["source"]["upload_id"]
    found = cluster.until(lambda: cluster.analyses_of(upload_id), "the row is committed")
    cluster.api.stop(signal.SIGKILL)
    asking.join()
    assert lost  # nobody heard the first answer
    cluster.valkey.process.send_signal(signal.SIGCONT)
    cluster.start_api()
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: insisting(client, cluster, body, "died"), range(100)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert {answer.headers.get("idempotency-replayed") for answer in answers} == {"true"}
    assert cluster.analyses_of(upload_id) == found == [answers[0].json()["id"]]
    other = question(cluster, 211)
    assert insisting(client, cluster, other, "died").status_code == 422
    assert cluster.ended(found[0])["status"] == "succeeded"
    assert cluster.results(found[0]) == 1


def test_a_thousand_that_insist_while_the_api_is_killed_get_one_job_and_one_body(start, client) -> None:
    cluster = start(workers=0)
    body = question(cluster, 220)
    with ThreadPoolExecutor(50) as pool:
        asking = [pool.submit(insisting, client, cluster, body, "insist") for _ in range(AT_ONCE)]
        time.sleep(0.3)
        cluster.api.stop(signal.SIGKILL)
        cluster.start_api()
        answers = [future.result() for future in asking]
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert cluster.analyses_of(body["source"]["upload_id"]) == [answers[0].json()["id"]]
