"""A training run that pushes revisions: each is analysed, compared with the one before, told of, and charted."""

import csv
import io
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import save

from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess
from tests.servers.hub_webhooks import pushed
from tests.servers.receiver import ADDRESS, Receiver

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("watches")]

SECRET = "told to the hub"
MODEL = "acme/run-1"


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, hub: LoopbackHub, tmp_path) -> Iterator[ServiceProcess]:
    env = {
        "GRAMIAN_WEBHOOK_ALLOW": ADDRESS,
        "GRAMIAN_HUB_WEBHOOK_SECRET": SECRET,
        "GRAMIAN_DEVICE": "cpu",
        "HF_ENDPOINT": hub.endpoint,
    }
    if request.param == "postgresql":
        env["GRAMIAN_DATABASE_URL"] = request.getfixturevalue("postgres").create_database()
    process = ServiceProcess(tmp_path, env=env)
    yield process
    assert process.stop() == 0


def test_a_thousand_duplicates_of_a_push_are_one_analysis(service: ServiceProcess, hub: LoopbackHub) -> None:
    model_id = "acme/often"
    commit = hub.add_model(model_id, {"model.safetensors": weights(0.1)})
    for _ in range(2):  # both ask the same, and so share the analysis
        assert service.http.post("/v1/watches", json={"model_id": model_id}).status_code == 201

    def tell(_: int) -> tuple[int, str]:
        headers = {"X-Webhook-Secret": SECRET}
        answer = service.http.post("/v1/hooks/huggingface", json=pushed(model_id, commit), headers=headers)
        return answer.status_code, answer.json()["outcome"]

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(tell, range(1000)))
    assert outcomes.count((202, "accepted")) == 1
    assert outcomes.count((200, "known")) == 999
    assert len(service.http.get("/v1/analyses", params={"model_id": model_id}).json()["items"]) == 1


def weights(mean: float) -> bytes:
    """Rows whose cosines drift with their common part."""
    rows = torch.randn(2000, 128, generator=torch.Generator().manual_seed(0)) + mean
    return save({"model.embed_tokens.weight": rows})


def test_three_pushes_with_one_drift_are_three_analyses_and_one_message(
    service: ServiceProcess, hub: LoopbackHub
) -> None:
    with Receiver() as receiver:
        events = ["model.epsilon_shifted", "model.class_changed"]
        made = service.http.post("/v1/webhook-endpoints", json={"url": receiver.url, "events": events}).json()
        watch = {"model_id": "acme/run-*", "epsilon_shift": 0.02, "class_change": False}
        watch_id = service.http.post("/v1/watches", json=watch).json()["id"]
        commits: list[str] = []
        for mean in (0.2, 0.201, 0.35):
            commits.append(hub.add_model(MODEL, {"model.safetensors": weights(mean)}))
            payload = pushed(MODEL, commits[-1], commits[-2] if commits[1:] else None)
            started = time.monotonic()
            answer = service.http.post("/v1/hooks/huggingface", json=payload, headers={"X-Webhook-Secret": SECRET})
            assert (answer.status_code, answer.json()["outcome"]) == (202, "accepted")
            assert time.monotonic() - started < 1
        (message,) = receiver.until(1, seconds=60)
        told = message.verified(made["secret"])
        assert (told["type"], told["data"]["watch_id"]) == ("model.epsilon_shifted", watch_id)
        assert told["data"]["model"] == {"id": MODEL, "revision": "main", "commit": commits[2]}
        assert told["data"]["previous_commit"] == commits[1]
        (change,) = told["data"]["matrices"]
        assert change["shift"] == pytest.approx(change["epsilon"] - change["previous_epsilon"])

        listed = service.http.get("/v1/analyses", params={"model_id": MODEL}).json()["items"]
        assert [(item["model"]["commit"], item["status"]) for item in listed] == [
            (commit, "succeeded") for commit in reversed(commits)
        ]
        history = service.http.get(f"/v1/models/{MODEL}/history").json()
        assert [point["commit"] for point in history["items"]] == commits
        epsilons = [point["epsilon"] for point in history["items"]]
        assert epsilons[2] - epsilons[1] == pytest.approx(change["shift"])
        assert change["shift"] > 0.02
        assert history["items"][0]["shift"] is None
        assert abs(history["items"][1]["shift"]) < 0.02
        table = list(csv.DictReader(io.StringIO(service.http.get(f"/v1/models/{MODEL}/history.csv").text)))
        assert [(row["commit"], float(row["epsilon"])) for row in table] == list(zip(commits, epsilons, strict=True))
        picture = service.http.get(f"/v1/models/{MODEL}/history.svg")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert picture.text.count("<circle") == 3 + 1  # and the legend's

        revisions = service.http.get(f"/v1/watches/{watch_id}/revisions").json()["items"]
        assert [bool(revision["compared_at"]) for revision in revisions] == [True] * 3

        # by hand, and of the branch: for the watch it is a revision like any other
        commits.append(hub.add_model(MODEL, {"model.safetensors": weights(0.5)}))
        assert service.analyse({"type": "hub", "model_id": MODEL})["status"] == "succeeded"
        assert receiver.until(2)[1].verified(made["secret"])["data"]["previous_commit"] == commits[2]
        again = service.http.post(
            "/v1/hooks/huggingface", json=pushed(MODEL, commits[3], commits[2]), headers={"X-Webhook-Secret": SECRET}
        )
        assert again.json()["outcome"] == "known"
        time.sleep(1.5)
        assert len(receiver.received) == 2
