"""Logs and metrics of a real service: what happened can be followed and counted, and no secret is told."""

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from safetensors.torch import save

from tests.e2e.test_jobs import long_source, post, until_running
from tests.e2e.test_lifecycle import is_running_a_job
from tests.hub.loopback import SIGNATURE, LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

HF_TOKEN = "hf_planted-token-4711"
KEY = "planted-idempotency-key-0815"
AUTHORIZATION = "Bearer planted-bearer-1234"
FOLLOWED = "followed-from-end-to-end"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Observed:
    """A service after three questions: one succeeded, one failed, the first one asked again."""

    def __init__(self, service: ServiceProcess) -> None:
        self.service = service
        self.succeeded: dict[str, Any] = {}
        self.failed: dict[str, Any] = {}

    def lines(self) -> list[dict[str, Any]]:
        whole = self.service.log.read_text().rpartition("\n")[0]  # the last line may be on its way
        return [json.loads(line) for line in whole.splitlines()]

    def accesses(self, *expected: tuple[str, int]) -> list[dict[str, Any]]:
        """Lines of requests, once these routes and statuses are told: a line is written after its answer was sent."""
        deadline = time.monotonic() + 10
        while True:
            found = [line for line in self.lines() if line["logger"] == "gramian.access"]
            if {(line["route"], line["status"]) for line in found} >= set(expected) or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def worker_address(self) -> str:
        (address,) = [
            found[0]
            for line in self.lines()
            if (found := re.search(r"http://.*/metrics$", line["message"])) is not None
        ]
        return address

    def api(self) -> Samples:
        return samples(self.service.http.get("/metrics").text)

    def worker(self) -> Samples:
        return samples(httpx2.get(self.worker_address(), trust_env=False).text)


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[(name, frozenset(labels.items()))]


def weights(seed: int, name: str = "wte.weight") -> bytes:
    return save({name: torch.randn(60, 8, generator=torch.Generator().manual_seed(seed))})


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory, path_root: Path) -> Iterator[Observed]:
    with LoopbackHub() as hub:
        hub.tokens.add(HF_TOKEN)
        hub.faults.redirect = True  # to an address that is signed
        hub.add_model("example/good", {"model.safetensors": weights(1)})
        hub.add_model("example/unrecognised", {"model.safetensors": weights(2, "W")})
        env = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_TOKEN": HF_TOKEN,
            "GRAMIAN_DEVICE": "cpu",
            "GRAMIAN_PATH_ROOT": str(path_root),
            "GRAMIAN_LOG_FORMAT": "json",
            "GRAMIAN_LOG_LEVEL": "DEBUG",
            "GRAMIAN_METRICS_PORT": "0",
        }
        found = Observed(ServiceProcess(tmp_path_factory.mktemp("observed"), env=env))
        headers = {
            "X-Request-ID": FOLLOWED,
            "Idempotency-Key": KEY,
            "Authorization": AUTHORIZATION,
            "Prefer": "wait=60",
        }
        body = {"kind": "embedding", "source": {"type": "hub", "model_id": "example/good"}}
        answer = found.service.http.post("/v1/analyses", json=body, headers=headers | {"Prefer": "wait=60"})
        assert answer.headers["X-Request-ID"] == FOLLOWED
        found.succeeded = answer.json()
        found.failed = found.service.analyse({"type": "hub", "model_id": "example/unrecognised"}, priority="batch")
        assert found.service.analyse(body["source"])["deduplicated"]
        assert hub.asked_for(SIGNATURE)
        yield found
        assert found.service.stop() == 0


def test_one_request_id_leads_from_the_answer_through_the_api_to_every_line_of_the_job(observed: Observed) -> None:
    id = observed.succeeded["id"]
    found = [line for line in observed.lines() if line.get("request_id") == FOLLOWED]
    (answered,) = [line for line in found if line["logger"] == "gramian.access"]
    assert (answered["method"], answered["route"], answered["status"]) == ("POST", "/v1/analyses", 200)
    assert answered["analysis_id"] == id
    assert answered["seconds"] > 0
    in_the_job = [line for line in found if line["logger"] == "gramian.worker"]
    assert {(line["analysis_id"], line["attempt"]) for line in in_the_job} == {(id, 1)}
    assert len({line["process"] for line in in_the_job} | {answered["process"]}) == 2


def test_every_line_is_one_json_object_with_its_time_in_utc_and_probes_are_told_at_debug_only(
    observed: Observed,
) -> None:
    observed.service.http.get("/v1/analyses/an_none?secret=planted-in-a-query")
    observed.service.http.get("/planted/path")
    expected = ("/v1/analyses/{analysis_id}", 404), ("unmatched", 404)
    access = observed.accesses(*expected)
    for line in observed.lines():
        assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
        assert {"level", "logger", "process", "message"} <= line.keys()
    assert all(re.fullmatch(r"\S+", line["request_id"]) for line in access)
    assert {line["level"] for line in access if line["route"] == "/readyz"} == {"debug"}
    assert {(line["route"], line["status"]) for line in access} >= set(expected)


def test_no_planted_secret_is_in_any_line(observed: Observed) -> None:
    text = observed.service.log.read_text()
    for secret in (HF_TOKEN, KEY, AUTHORIZATION.split()[1], SIGNATURE, "planted-in-a-query", "/planted/path"):
        assert secret not in text


def test_the_api_counts_what_was_accepted_and_what_was_known(observed: Observed) -> None:
    found = observed.api()
    assert value(found, "gramian_analyses_accepted_total", kind="embedding", priority="interactive") == 1
    assert value(found, "gramian_analyses_accepted_total", kind="embedding", priority="batch") == 1
    assert value(found, "gramian_analyses_deduplicated_total", kind="embedding", priority="interactive") == 1
    posts = {"method": "POST", "route": "/v1/analyses"}
    assert value(found, "gramian_http_requests_total", **posts, status="200") == 3
    assert value(found, "gramian_http_request_seconds_count", **posts) == 3
    for priority in ("interactive", "batch"):
        assert value(found, "gramian_queue_age_seconds", priority=priority) == 0
        assert value(found, "gramian_analyses", status="queued", priority=priority) == 0
    ids = {observed.succeeded["id"], observed.failed["id"]}
    assert not [labels for _, labels in found if ids & {value for _, value in labels}]


def test_the_worker_counts_each_job_by_how_it_ended(observed: Observed) -> None:
    assert (observed.succeeded["status"], observed.failed["status"]) == ("succeeded", "failed")
    found = eventually(observed.worker, lambda found: value(found, "gramian_worker_run_seconds_count") == 2)
    outcomes = {
        dict(labels)["outcome"]: value
        for (name, labels), value in found.items()
        if name == "gramian_worker_jobs_finished_total"
    }
    assert {outcome: count for outcome, count in outcomes.items() if count} == {"succeeded": 1, "failed": 1}
    assert outcomes.keys() >= {"postponed", "released", "crashed", "cancelled", "lease_lost"}
    assert value(found, "gramian_worker_jobs_started_total") == 2


def test_a_cancelled_and_a_killed_job_are_told_apart(observed: Observed, path_root: Path) -> None:
    service, address = observed.service, observed.worker_address()
    before = samples(httpx2.get(address, trust_env=False).text)

    def more(outcome: str) -> float:
        labels = {"outcome": outcome}
        name = "gramian_worker_jobs_finished_total"
        return value(observed.worker(), name, **labels) - value(before, name, **labels)

    asked = post(service, long_source(path_root, 31)).json()
    until_running(service, asked["id"])
    running = observed.api()
    assert value(running, "gramian_analyses", status="running", priority="interactive") == 1
    service.http.post(f"/v1/analyses/{asked['id']}/cancel")
    eventually(lambda: more("cancelled"), lambda count: count == 1)

    asked = post(service, long_source(path_root, 32)).json()
    until_running(service, asked["id"])
    (child,) = [process for process in service.family() if is_running_a_job(process)]
    child.kill()
    eventually(lambda: more("crashed"), lambda count: count == 1)
    service.http.post(f"/v1/analyses/{asked['id']}/cancel")  # it would run again when its lease has expired
    assert (more("cancelled"), more("crashed"), more("lease_lost")) == (1, 1, 0)


def test_jobs_run_while_the_worker_is_scraped_without_a_pause(observed: Observed) -> None:
    address, done, scrapes = observed.worker_address(), threading.Event(), []

    def scrape() -> None:
        with httpx2.Client(trust_env=False) as http:
            while not done.is_set():
                scrapes.append(http.get(address).status_code)
                time.sleep(0.002)

    def ask(seed: int) -> str:
        upload = observed.service.http.post("/v1/uploads", content=weights(seed)).json()
        return observed.service.analyse({"type": "upload", "upload_id": upload["id"]})["status"]

    with ThreadPoolExecutor(2) as pool:
        scrapers = [pool.submit(scrape) for _ in range(2)]
        try:
            assert [ask(seed) for seed in range(100, 108)] == ["succeeded"] * 8
        finally:
            done.set()
        for scraper in scrapers:
            scraper.result()
    assert set(scrapes) == {200}
    assert len(scrapes) > 8


def eventually(ask: Any, is_right: Any) -> Any:
    deadline = time.monotonic() + 10
    while not is_right(found := ask()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found
