"""Cancelling, trying again and asking twice, with real workers."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import numpy as np
import pytest
import torch
from safetensors.torch import save

from tests.e2e.test_lifecycle import is_running_a_job
from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e


def matrix(seed: int) -> bytes:
    return save({"wte.weight": torch.randn(60, 8, generator=torch.Generator().manual_seed(seed))})


def post(service: ServiceProcess, source: dict, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.http.post("/v1/analyses", json={"kind": "embedding", "source": source}, headers=named)


def long_source(path_root: Path, seed: int) -> dict[str, str]:
    """A matrix that takes seconds: wide, so that its products do."""
    name = f"long-{seed}.npy"
    np.save(path_root / name, np.random.default_rng(seed).standard_normal((24000, 2048), dtype=np.float32))
    return {"type": "path", "path": name}


def until_running(service: ServiceProcess, id: str) -> None:
    deadline = time.monotonic() + 60
    while service.http.get(f"/v1/analyses/{id}").json()["status"] != "running":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cancelled_running_job_is_gone_within_two_seconds(service: ServiceProcess, path_root: Path) -> None:
    source = long_source(path_root, 1)
    asked = post(service, source).json()
    until_running(service, asked["id"])
    assert [process for process in service.family() if is_running_a_job(process)]
    cancelled = service.http.post(f"/v1/analyses/{asked['id']}/cancel").json()
    assert cancelled["status"] == "cancelled"
    deadline = time.monotonic() + 2
    while [process for process in service.family() if is_running_a_job(process)]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert service.http.post(f"/v1/analyses/{asked['id']}/cancel").json()["status"] == "cancelled"
    again = post(service, source).json()  # a cancelled answer does not stand in the way
    assert again["id"] != asked["id"]
    service.http.post(f"/v1/analyses/{again['id']}/cancel")


def test_a_job_that_two_asked_for_goes_on_until_both_cancel(service: ServiceProcess, path_root: Path) -> None:
    source = long_source(path_root, 2)
    first, second = post(service, source).json(), post(service, source).json()
    assert (second["id"], second["deduplicated"], second["callers"]) == (first["id"], True, 2)
    url = f"/v1/analyses/{first['id']}/cancel"
    assert service.http.post(url).json()["status"] in ("queued", "running")
    assert service.http.post(url).json()["status"] == "cancelled"


def test_what_has_ended_cannot_be_cancelled(service: ServiceProcess) -> None:
    upload = service.http.post("/v1/uploads", content=matrix(20)).json()
    ended = service.analyse({"type": "upload", "upload_id": upload["id"]})
    refused = service.http.post(f"/v1/analyses/{ended['id']}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert service.http.post("/v1/analyses/an_none/cancel").status_code == 404


def test_many_requests_with_one_key_are_one_job_and_one_answer(service: ServiceProcess) -> None:
    upload = service.http.post("/v1/uploads", content=matrix(21)).json()
    source = {"type": "upload", "upload_id": upload["id"]}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: post(service, source, Idempotency_Key='"one"'), range(200)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert not answers[0].json()["deduplicated"]
    other = service.http.post("/v1/uploads", content=matrix(22)).json()
    refused = post(service, {"type": "upload", "upload_id": other["id"]}, Idempotency_Key="one")
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    waited = post(service, source, Idempotency_Key="one", Prefer="wait=60")
    assert (waited.status_code, waited.json()["status"]) == (200, "succeeded")
    assert post(service, source, Idempotency_Key="x" * 256).status_code == 422


def test_a_refused_request_leaves_its_key_free(service: ServiceProcess) -> None:
    source = {"type": "upload", "upload_id": "upl_none"}
    assert post(service, source, Idempotency_Key="free").status_code == 404
    upload = service.http.post("/v1/uploads", content=matrix(23)).json()
    assert post(service, {"type": "upload", "upload_id": upload["id"]}, Idempotency_Key="free").status_code == 202


def test_a_hub_that_fails_for_a_while_delays_the_answer_and_no_more(service: ServiceProcess, hub: LoopbackHub) -> None:
    hub.add_model("example/flaky", {"model.safetensors": matrix(24)})
    hub.faults.status, hub.faults.retry_after, hub.faults.times = 503, "1", 9
    try:
        asked = post(service, {"type": "hub", "model_id": "example/flaky"}).json()
        deadline = time.monotonic() + 90
        while (found := service.http.get(f"/v1/analyses/{asked['id']}").json())["status"] in ("queued", "running"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        hub.reset()
    assert found["status"] == "succeeded", found["error"]
