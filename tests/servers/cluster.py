"""API, workers, Valkey and PostgreSQL as processes of their own, each of which a test may kill and start again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import torch
from safetensors.torch import save
from sqlalchemy import Engine, select

from gramian.lifetime import attached
from gramian.storage.engine import open_engine
from gramian.storage.events import Event, events_after
from gramian.storage.tables import AnalysisRow
from service.instance import worker_environment
from tests.servers.gramian_service import ServiceProcess, clean_environment
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

ENDED = ("succeeded", "failed", "cancelled")


class Cluster:
    """One API and any number of workers on a PostgreSQL and a Valkey of their own."""

    def __init__(self, folder: Path, *, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.postgres, self.valkey = PostgresServer(), ValkeyServer()
        self.env = {
            "GRAMIAN_DATABASE_URL": self.postgres.create_database(),
            "GRAMIAN_REDIS_URL": self.valkey.url,
            "GRAMIAN_DATA_DIR": str(folder / "data"),
            "GRAMIAN_DEVICE": "cpu",
            **env,
        }
        self.engine: Engine = open_engine(self.env["GRAMIAN_DATABASE_URL"])
        self.start_api()
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_api(self) -> None:
        self.api = ServiceProcess(self.folder / "data", "--no-worker", env=self.env)
        self.http: httpx2.Client = self.api.http

    def start_worker(self, **env: str) -> subprocess.Popen[bytes]:
        with (self.folder / "workers.log").open("ab") as log:
            worker = subprocess.Popen(
                attached([sys.executable, "-m", "workers"]),
                env=worker_environment(clean_environment() | self.env | env),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(worker)
        return worker

    def kill_workers(self) -> None:
        """End all workers and their jobs at once."""
        family = [process for process in self.family() if process.pid != self.api.process.pid]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for worker in self.workers:
            worker.wait(timeout=10)
        self.workers.clear()

    def stop(self) -> None:
        """Stop everything; nothing may be left."""
        family = self.family()
        self.kill_workers()
        self.api.stop()
        self.engine.dispose()
        self.valkey.remove()
        self.postgres.remove()
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]

    def family(self) -> list[psutil.Process]:
        roots = [worker.pid for worker in self.workers if worker.poll() is None]
        if self.api.process.poll() is None:
            roots.append(self.api.process.pid)
        found = []
        for root in roots:
            found += [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
        return found

    # -- jobs --

    def ask(self, source: dict[str, str], **more: Any) -> str:
        answer = self.http.post("/v1/analyses", json={"kind": "embedding", "source": source, **more})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def upload(self, seed: int) -> dict[str, str]:
        """A source that no other seed shares."""
        upload = self.http.post("/v1/uploads", content=small_matrix(seed)).json()
        return {"type": "upload", "upload_id": upload["id"]}

    def get(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/v1/analyses/{id}").json()
        return found

    def until(self, condition: Callable[[], object], what: str, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}\n{self.logs()}"
            time.sleep(0.02)
        return found

    def ended(self, id: str, seconds: float = 60) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.get(id)
            return found if found["status"] in ENDED else None

        found: dict[str, Any] = self.until(look, f"{id} ends", seconds)
        return found

    def running_child(self, id: str) -> psutil.Process:
        """The child that runs the job, once it has claimed it."""
        self.until(lambda: self.get(id)["status"] == "running", f"{id} runs")
        child: psutil.Process = self.until(lambda: next(iter(self.children()), None), "a child runs")
        return child

    def children(self) -> list[psutil.Process]:
        """Forked children of the workers: they have the worker's own command line."""
        found = []
        for worker in self.workers:
            if worker.poll() is None:
                process = psutil.Process(worker.pid)
                found += [child for child in process.children() if _command(child) == process.cmdline()]
        return found

    def analyses_of(self, upload_id: str) -> list[str]:
        """The ids of all analyses of an upload."""
        with self.engine.connect() as connection:
            return list(connection.scalars(select(AnalysisRow.id).where(AnalysisRow.upload_id == upload_id)))

    def events(self, id: str) -> list[Event]:
        return events_after(self.engine, id, 0)

    def attempts(self, id: str) -> int:
        """How often the job was begun."""
        return sum(event.data.get("status") == "running" for event in self.events(id))

    def results(self, id: str) -> int:
        return sum(event.data.get("status") == "succeeded" for event in self.events(id))

    def logs(self) -> str:
        return self.api.log.read_text()[-4000:] + (self.folder / "workers.log").read_text()[-8000:]


def small_matrix(seed: int, rows: int = 60, dim: int = 8) -> bytes:
    """A safetensors file with one vocabulary matrix."""
    return save({"wte.weight": torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))})


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie too
        return []


def stop_and_continue(processes: list[psutil.Process], seconds: float) -> None:
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    for process in processes:
        process.send_signal(signal.SIGCONT)
