"""Everything that can break, as real processes, and what faults can do to it."""

import os
import random
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx2
import psutil

from gramian.storage import schema
from gramian.storage.engine import open_engine
from service.instance import worker_environment
from tests.chaos.processes import MARK, marked, role
from tests.chaos.supervised import END_SECONDS, Supervised
from tests.servers.gramian_service import clean_environment
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

Variant = Literal["cluster", "embedded"]
Server = PostgresServer | ValkeyServer

ROOT = Path(__file__).parents[2]
PLANTED = Path(__file__).parent / "faults"

LEASE_SECONDS = 2.0
STOP_SECONDS = 1.5
SETTINGS = {
    "GRAMIAN_LEASE_SECONDS": str(LEASE_SECONDS),
    "GRAMIAN_RECONCILE_SECONDS": "0.5",
    "GRAMIAN_STOP_SECONDS": str(STOP_SECONDS),
    "GRAMIAN_MAX_DELIVERIES": "5",  # an innocent job is hit so often by no plan; a deadly one ends in seconds
    "GRAMIAN_DEVICE": "cpu",
    "PYTHONPATH": f"{PLANTED}{os.pathsep}{ROOT}",
}

ORPHAN_SECONDS = 20  # the longest that anything may live on after its parents
READY_SECONDS = 90


@dataclass
class World:
    """The service in one of its two forms. Used from one thread: children end with the thread that started them."""

    variant: Variant
    folder: Path
    path_root: Path
    hub: str
    seed: int

    def __post_init__(self) -> None:
        self._found: list[str] = []
        self._draw = random.Random(self.seed)
        self._frozen: list[tuple[float, psutil.Process]] = []
        self._absent: list[tuple[float, Server]] = []
        self._supervised: list[Supervised] = []
        self._environ = clean_environment() | SETTINGS | {MARK: str(self.folder), "HF_ENDPOINT": self.hub}
        self._environ["GRAMIAN_PATH_ROOT"] = str(self.path_root)
        self.data_dir = self.folder / "data"
        self.data_dir.mkdir(parents=True)
        self.postgres: PostgresServer | None = None
        self.valkey: ValkeyServer | None = None

    # -- life --

    def start(self) -> None:
        if self.variant == "cluster":
            self.postgres, self.valkey = PostgresServer(), ValkeyServer()
            self.database_url = self.postgres.create_database()
            self._environ |= {"GRAMIAN_DATABASE_URL": self.database_url, "GRAMIAN_REDIS_URL": self.valkey.url}
            self._environ["GRAMIAN_DATA_DIR"] = str(self.data_dir)
            engine = open_engine(self.database_url)
            schema.upgrade(engine)
            engine.dispose()
            for number in (1, 2):
                self._supervise_service(f"API {number}", "--no-worker")
            for number in (1, 2):
                self._supervise(f"worker {number}", ["-m", "workers"], worker_environment(self._environ))
        else:
            self.database_url = f"sqlite:///{self.data_dir / 'gramian.db'}"
            self._supervise_service("service")
        for supervised in self._supervised:
            supervised.start()
        self._await_start()

    def _supervise_service(self, name: str, *arguments: str) -> None:
        words = ["-m", "service", "serve", "--port", str(_free_port()), "--data-dir", str(self.data_dir), *arguments]
        self._supervise(name, words, self._environ)

    def _supervise(self, name: str, words: list[str], environ: Mapping[str, str]) -> None:
        log = self.folder / f"{name.replace(' ', '-')}.log"
        self._supervised.append(Supervised(name, [sys.executable, *words], environ, log))

    @property
    def findings(self) -> list[str]:
        """What was wrong with how processes ended, in words."""
        return self._found + [finding for supervised in self._supervised for finding in supervised.findings]

    @property
    def exits(self) -> Counter[str]:
        """What ended though nobody had harmed it, by name and exit code."""
        return sum((supervised.exits for supervised in self._supervised), Counter())

    @property
    def urls(self) -> list[str]:
        commands = [supervised.command for supervised in self._supervised if "serve" in supervised.command]
        return [f"http://127.0.0.1:{command[command.index('--port') + 1]}" for command in commands]

    def tick(self) -> None:
        """Do what is due: thaw, bring servers back, start again what ended. Call it often."""
        now = time.monotonic()
        for entry in [entry for entry in self._frozen if entry[0] <= now]:
            self._frozen.remove(entry)
            _signal(entry[1], signal.SIGCONT)
        for absent in [absent for absent in self._absent if absent[0] <= now]:
            self._absent.remove(absent)
            absent[1].start()
        for supervised in self._supervised:
            supervised.look_after(self._draw)

    def stop(self) -> None:
        """Ask everything of the product to end, and look whether it does, and whether anything is left."""
        for _, process in self._frozen:
            _signal(process, signal.SIGCONT)
        self._frozen.clear()
        for _, server in self._absent:
            server.start()
        self._absent.clear()
        self._await_start()
        running = [supervised for supervised in self._supervised if supervised.process]
        for supervised in running:
            self.terminate(psutil.Process(supervised.process.pid))
        deadline = time.monotonic() + END_SECONDS
        while any(supervised.process.poll() is None for supervised in running) and time.monotonic() < deadline:
            time.sleep(0.05)
        for supervised in running:
            code = supervised.process.poll()
            if code != 0:
                self._found.append(f"{supervised.name} ended with {code} at the stop")
        deadline = time.monotonic() + ORPHAN_SECONDS
        while (left := list(marked(self.folder))) and time.monotonic() < deadline:
            time.sleep(0.1)
        self._found += [f"orphan: {_described(process)}" for process in left]

    def _await_start(self) -> None:
        """Signals before a program has begun end it by their default: no orderly stop could be seen."""
        deadline = time.monotonic() + READY_SECONDS
        while not self.is_whole():
            if time.monotonic() > deadline:
                self._found.append("not everything came up again")
                return
            self.tick()
            time.sleep(0.1)

    def is_whole(self) -> bool:
        """Whether everything is up that should be."""
        workers = sum("workers" in supervised.command for supervised in self._supervised) or 1
        return (
            not self._frozen
            and not self._absent
            and all(_is_ready(url) for url in self.urls)
            and sum(self.has_come_up(process) for process in self.processes("worker")) >= workers
        )

    def remove(self) -> None:
        """Leave nothing behind, whatever happened."""
        for process in marked(self.folder):
            _signal(process, signal.SIGKILL)
        for supervised in self._supervised:
            if supervised.process:
                supervised.process.wait()
        for server in (self.postgres, self.valkey):
            if server:
                server.remove()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def logs(self) -> str:
        return "\n".join(f"--- {file.name}\n{file.read_text()[-4000:]}" for file in sorted(self.folder.glob("*.log")))

    # -- what faults act on --

    def processes(self, wanted: str) -> list[psutil.Process]:
        """The living processes of a role that are not frozen, in a fixed order."""
        frozen = {process.pid for _, process in self._frozen}
        found = [process for process in marked(self.folder) if process.pid not in frozen and role(process) == wanted]
        return sorted(found, key=lambda process: process.pid)

    def has_come_up(self, process: psutil.Process) -> bool:
        """Whether it has set itself up to be asked to end: before that, SIGTERM ends any program by its default."""
        try:
            if role(process) == "worker":
                loops = [child for child in process.children() if role(child) == "reconcile loop"]
                return any(time.time() - loop.create_time() > 1 for loop in loops)
            words = process.cmdline()
            return _is_ready(f"http://127.0.0.1:{words[words.index('--port') + 1]}")
        except (psutil.Error, ValueError):
            return False

    def kill(self, process: psutil.Process) -> None:
        _signal(process, signal.SIGKILL)

    def terminate(self, process: psutil.Process) -> None:
        for supervised in self._supervised:
            if supervised.process and supervised.process.pid == process.pid:
                supervised.expect_end()
        _signal(process, signal.SIGTERM)

    def freeze(self, process: psutil.Process, seconds: float) -> None:
        _signal(process, signal.SIGSTOP)
        self._frozen.append((time.monotonic() + seconds, process))

    def kill_valkey(self, seconds: float) -> bool:
        """Kill it; it comes back empty, by our hand or by that of `gramian serve`."""
        if self.valkey:
            return self._take_away(self.valkey, self.valkey.stop, seconds)
        found = self.processes("Valkey")
        for process in found:
            self.kill(process)
        return bool(found)

    def kill_postgres(self, seconds: float) -> bool:
        """Kill it with all its backends; it comes back on its data."""
        return self.postgres is not None and self._take_away(self.postgres, self.postgres.kill, seconds)

    def _take_away(self, server: Server, kill: Callable[[], None], seconds: float) -> bool:
        if any(server is absent for _, absent in self._absent):
            return False
        kill()
        self._absent.append((time.monotonic() + seconds, server))
        return True


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", timeout=5, trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _described(process: psutil.Process) -> str:
    try:
        return f"{role(process)} {process.pid} {process.status()} {' '.join(process.cmdline())}"
    except psutil.Error:
        return str(process)
