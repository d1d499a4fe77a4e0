"""The stream of what happens to an analysis, as clients read it."""

import asyncio
import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import psutil
import pytest
import torch
from safetensors.torch import save

from tests.hub.loopback import CHUNK, LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

WATCHERS = 500
SEEDS = itertools.count(500)


def slow_model(hub: LoopbackHub, *, seconds: float) -> dict[str, str]:
    seed = next(SEEDS)
    W = torch.randn(CHUNK // 4, 8, generator=torch.Generator().manual_seed(seed))  # 8 chunks
    hub.add_model(f"slow/events-{seed}", {"model.safetensors": save({"wte.weight": W})})
    hub.faults.chunk_seconds = seconds / 8
    return {"type": "hub", "model_id": f"slow/events-{seed}"}


@pytest.fixture
def ask(service: ServiceProcess, hub: LoopbackHub) -> Iterator[Callable[..., str]]:
    def ask(seconds: float) -> str:
        answer = service.http.post(
            "/v1/analyses", json={"kind": "embedding", "source": slow_model(hub, seconds=seconds)}
        )
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    yield ask
    hub.reset()


def read(url: str, *, last: str | None = None, most: int | None = None) -> list[tuple[int, str, dict]]:
    """The stream's events until it ends, or `most` of them."""
    headers = {"Last-Event-ID": last} if last else {}
    found: list[tuple[int, str, dict]] = []
    with httpx2.stream("GET", url, headers=headers, timeout=60, trust_env=False) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
                fields = {}
                if len(found) == most:
                    break
    return found


def test_a_stream_tells_every_state_and_how_far_it_is_and_ends_with_the_analysis(service, ask) -> None:
    id = ask(4)
    events = read(f"{service.url}/v1/analyses/{id}/events")
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    assert [data["status"] for _, kind, data in events if kind == "status"] == ["queued", "running", "succeeded"]
    steps = [data for _, kind, data in events if kind == "progress"]
    assert len(steps) >= 3
    assert [step["fraction"] for step in steps] == sorted(step["fraction"] for step in steps)
    assert {step["unit"] for step in steps if step["stage"] == "fetch"} == {"bytes"}
    assert all(0 <= step["done"] <= step["total"] == CHUNK * 8 for step in steps if step["stage"] == "fetch")
    assert any(step["seconds_left"] for step in steps)


def test_a_client_that_comes_back_misses_nothing_and_sees_nothing_twice(service, ask) -> None:
    id = ask(3)
    url = f"{service.url}/v1/analyses/{id}/events"
    seen: list[tuple[int, str, dict]] = []
    while not seen or seen[-1][2].get("status") != "succeeded":
        seen += read(url, last=str(seen[-1][0]) if seen else None, most=2)  # it leaves after every second event
    assert [number for number, _, _ in seen] == list(range(1, len(seen) + 1))
    assert read(url) == seen  # the whole story, afterwards
    assert read(url, last="2") == seen[2:]
    gone = service.http.get(f"/v1/analyses/{id}/events", headers={"Last-Event-ID": str(seen[-1][0])})
    assert (gone.status_code, gone.content) == (204, b"")


@pytest.mark.parametrize("last", ["-1", "x", "99999", "1.0", "9" * 5000, "²"])
def test_an_event_id_that_was_never_given_is_refused(service, ask, last: str) -> None:
    id = ask(0)
    answer = service.http.get(f"/v1/analyses/{id}/events", headers={"Last-Event-ID": last.encode()})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/Last-Event-ID"
    assert service.http.get("/v1/analyses/an_none/events").status_code == 404


def test_five_hundred_watch_one_process_without_a_thread_each(service, ask) -> None:
    id = ask(6)
    api = psutil.Process(service.process.pid)

    async def watch(client: httpx2.AsyncClient, opened: asyncio.Semaphore) -> list[str]:
        async with client.stream("GET", f"/v1/analyses/{id}/events") as answer:
            opened.release()
            return [line async for line in answer.aiter_lines() if line.startswith("data: ")]

    async def watch_all() -> list[list[str]]:
        limits = httpx2.Limits(max_connections=WATCHERS)
        opened = asyncio.Semaphore(0)
        async with httpx2.AsyncClient(base_url=service.url, limits=limits, timeout=60, trust_env=False) as client:
            watching = [asyncio.create_task(watch(client, opened)) for _ in range(WATCHERS)]
            for _ in range(WATCHERS):
                await opened.acquire()
            threads.append(api.num_threads())
            return await asyncio.gather(*watching)

    threads: list[int] = []
    stories = asyncio.run(watch_all())
    assert threads[0] < 60  # the pool for blocking calls has 40
    assert len({tuple(story) for story in stories}) == 1  # whenever they came, all saw the same
    assert json.loads(stories[0][-1].removeprefix("data: "))["status"] == "succeeded"


@pytest.fixture
def own_service(tmp_path: Path, hub: LoopbackHub) -> Iterator[Callable[..., ServiceProcess]]:
    started: list[ServiceProcess] = []

    def start(**env: str) -> ServiceProcess:
        started.append(ServiceProcess(tmp_path / "data", env={"HF_ENDPOINT": hub.endpoint} | env))
        return started[-1]

    yield start
    hub.reset()
    for service in started:
        if service.process.poll() is None:
            service.stop(signal.SIGKILL)


def test_a_stream_goes_on_where_it_was_after_a_restart_of_the_service(own_service, hub) -> None:
    service = own_service(GRAMIAN_STOP_SECONDS="0", GRAMIAN_RECONCILE_SECONDS="0.5")
    body = {"kind": "embedding", "source": slow_model(hub, seconds=5)}
    id = service.http.post("/v1/analyses", json=body).json()["id"]
    seen: list[tuple[int, str, dict]] = []
    reader = threading.Thread(target=lambda: seen.extend(read(f"{service.url}/v1/analyses/{id}/events")))
    reader.start()
    while service.http.get(f"/v1/analyses/{id}").json()["status"] != "running":
        time.sleep(0.02)
    time.sleep(1)
    assert service.stop() == 0
    reader.join(timeout=10)
    assert seen
    assert seen[-1][2].get("status") != "succeeded"
    service = own_service(GRAMIAN_RECONCILE_SECONDS="0.5")
    seen += read(f"{service.url}/v1/analyses/{id}/events", last=str(seen[-1][0]))
    assert [number for number, _, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][2]["status"] == "succeeded"
    assert service.stop() == 0


def test_a_stopping_service_is_not_ready_first_and_answers_what_it_was_asked(own_service, hub) -> None:
    service = own_service(GRAMIAN_DRAIN_SECONDS="3", GRAMIAN_STOP_SECONDS="0")
    body = {"kind": "embedding", "source": slow_model(hub, seconds=30)}
    answers: list[httpx2.Response] = []

    def wait() -> None:
        url = f"{service.url}/v1/analyses"
        answers.append(httpx2.post(url, json=body, headers={"Prefer": "wait=60"}, timeout=60, trust_env=False))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not service.http.get("/v1/analyses").json()["items"]:
        time.sleep(0.02)
    service.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 2
    while (ready := service.http.get("/readyz")).status_code == 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [check["name"] for check in ready.json()["checks"] if not check["ok"]] == ["accepting"]
    assert service.http.get("/livez").status_code == 200
    assert service.http.get("/v1/analyses").status_code == 200  # who still comes is still served
    waiting.join(timeout=20)
    assert answers[0].status_code == 202  # at once, with where it stands
    assert answers[0].json()["status"] in ("queued", "running")
    assert service.stop() == 0
