"""Starting, stopping and being killed: nothing is lost and no process stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import save

from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e


@pytest.fixture
def start(tmp_path: Path):
    """Start services that are gone at the end, whatever the test found."""
    started: list[ServiceProcess] = []

    def start(*arguments: str, folder: str = "data", env: dict[str, str] | None = None) -> ServiceProcess:
        started.append(ServiceProcess(tmp_path / folder, *arguments, env=env))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            service.stop(signal.SIGKILL)


def matrix(seed: int, rows: int = 60, dim: int = 8) -> bytes:
    return save({"wte.weight": torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))})


def ask(service: ServiceProcess, seed: int) -> dict:
    upload = service.http.post("/v1/uploads", content=matrix(seed)).json()
    source = {"type": "upload", "upload_id": upload["id"]}
    return service.http.post("/v1/analyses", json={"kind": "embedding", "source": source}).json()


def ended(service: ServiceProcess, id: str, seconds: float = 60) -> dict:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = service.http.get(f"/v1/analyses/{id}").json()
        if found["status"] in ("succeeded", "failed"):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{id} is still {found['status']}:\n{service.log.read_text()}")


def all_gone(family: list[psutil.Process], seconds: float = 20) -> bool:
    _, alive = psutil.wait_procs(family, timeout=seconds)
    return not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_sigterm_stops_everything_and_results_are_there_after_a_restart(start, tmp_path: Path) -> None:
    service = start()
    first = ended(service, ask(service, 0)["id"])
    family = service.family()
    assert len(family) >= 4  # the API, Valkey, the worker, its reconcile loop
    assert service.stop(signal.SIGTERM) == 0
    assert all_gone(family)
    assert not (tmp_path / "data" / "valkey.sock").exists()

    service = start("--no-worker")
    assert service.http.get(f"/v1/analyses/{first['id']}").json() == first
    waiting = ask(service, 1)
    assert service.stop() == 0

    service = start()  # Valkey forgot the message; the row did not
    assert ended(service, waiting["id"])["status"] == "succeeded"
    assert service.stop() == 0


def test_ctrl_c_stops_everything_while_a_job_runs(start, tmp_path: Path) -> None:
    service = start()
    upload = service.http.post("/v1/uploads", content=matrix(4, rows=30000, dim=768)).json()
    source = {"type": "upload", "upload_id": upload["id"]}
    asked = service.http.post("/v1/analyses", json={"kind": "embedding", "source": source}).json()
    while service.http.get(f"/v1/analyses/{asked['id']}").json()["status"] == "queued":
        time.sleep(0.01)
    family = service.family()
    assert service.stop(signal.SIGINT) == 0
    assert all_gone(family)


def test_a_killed_service_takes_its_processes_along(start, tmp_path: Path) -> None:
    service = start()
    family = service.family()
    service.stop(signal.SIGKILL)
    assert all_gone(family)


def test_a_killed_worker_and_a_killed_valkey_come_back_and_no_job_is_lost(start, tmp_path: Path) -> None:
    service = start(env={"GRAMIAN_RECONCILE_SECONDS": "1"})
    for seed, name in enumerate(("workers", "valkey")):
        victim = next(process for process in service.family() if name in " ".join(process.cmdline()))
        victim.kill()
        assert ended(service, ask(service, seed)["id"])["status"] == "succeeded"
    assert service.stop() == 0


def test_a_job_whose_child_is_killed_runs_again_and_one_that_kills_it_always_fails_with_a_reason(
    start,
) -> None:
    env = {"GRAMIAN_LEASE_SECONDS": "1", "GRAMIAN_RECONCILE_SECONDS": "0.5", "GRAMIAN_MAX_DELIVERIES": "2"}
    service = start(env=env)
    upload = service.http.post("/v1/uploads", content=matrix(5, rows=30000, dim=512)).json()
    source = {"type": "upload", "upload_id": upload["id"]}
    asked = service.http.post("/v1/analyses", json={"kind": "embedding", "source": source}).json()
    found: dict = {}
    for attempt in range(2):
        deadline = time.monotonic() + 60
        started_at = None if attempt == 0 else found["started_at"]
        while (found := service.http.get(f"/v1/analyses/{asked['id']}").json())["started_at"] == started_at:
            assert time.monotonic() < deadline, service.log.read_text()
            time.sleep(0.01)
        (child,) = [process for process in service.family() if is_running_a_job(process)]
        child.kill()
    found = ended(service, asked["id"])
    assert (found["status"], found["error"]["code"]) == ("failed", "worker_died")
    again = service.analyse(source)
    assert (again["status"], again["deduplicated"]) == ("succeeded", False)
    assert service.stop() == 0


def is_running_a_job(process: psutil.Process) -> bool:
    """A forked child of the worker has the worker's command line and is its own process group."""
    try:
        parent = process.parent()
        return parent is not None and parent.cmdline() == process.cmdline() and "workers" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_one_service_a_data_folder(start, tmp_path: Path) -> None:
    service = start("--no-worker")
    second = serve("--data-dir", str(tmp_path / "data"), "--port", "0")
    assert second.returncode == 3
    assert service.url in second.stderr
    assert service.stop() == 0


def test_an_address_that_is_not_loopback_wants_a_key(start, tmp_path: Path) -> None:
    service = start("--no-worker", "--host", "0.0.0.0")
    assert "gramian keys create" in service.log.read_text()
    assert service.http.get("/livez").status_code == 200
    assert service.http.get("/v1/analyses").status_code == 401

    keys = [sys.executable, "-m", "service", "keys"]
    environ = os.environ | {"GRAMIAN_DATA_DIR": str(service.data_dir)}
    made = subprocess.run([*keys, "create", "ci"], capture_output=True, text=True, env=environ, check=True)
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    assert service.http.get("/v1/analyses", headers=headers).status_code == 200
    id = made.stderr.split()[0]
    subprocess.run([*keys, "revoke", id], capture_output=True, env=environ, check=True)
    assert service.http.get("/v1/analyses", headers=headers).status_code == 401
    assert made.stdout.strip() not in service.log.read_text()
    assert service.stop() == 0


def test_a_taken_port_is_named(start, tmp_path: Path) -> None:
    service = start("--no-worker")
    port = service.url.rsplit(":", 1)[1]
    refused = serve("--data-dir", str(tmp_path / "b"), "--port", port, "--no-worker")
    assert refused.returncode == 3
    assert port in refused.stderr
    assert service.stop() == 0


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ, check=False)
