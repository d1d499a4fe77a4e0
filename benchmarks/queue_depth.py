"""`make bench-queue`: whether a long queue slows down those who submit, list and claim. It takes some ten minutes."""

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine

from gramian.lifetime import attached
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from service.instance import worker_environment
from tests.servers.gramian_service import ServiceProcess, clean_environment
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

Database = Literal["sqlite", "postgresql"]

WORST = 1.5  # times the median at the start
LIST_TIMES, CLAIM_TIMES, RUN_TIMES = 60, 60, 15
PAUSE_SECONDS = 0.3  # between two probes of the worker: longer than one takes, so that it idles
WAIT_SECONDS = 120

console = Console()


@dataclass(frozen=True)
class Ratio:
    """One kind of request, in seconds each: while the queue was short, and when it was long."""

    words: str
    start: list[float]
    end: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.end) / statistics.median(self.start)


def main(
    jobs: Annotated[int, typer.Option(min=500, help="Jobs that wait in the end.")] = 10_000,
    database: Annotated[str, typer.Option(help="sqlite, postgresql or both.")] = "both",
) -> None:
    """Fill a queue that nobody serves; print medians at its start and end; exit with 1 if one grew too much."""
    signal.signal(signal.SIGTERM, _exit)  # servers and folders are put away at that too
    kinds: list[Database] = ["sqlite", "postgresql"] if database == "both" else [database]  # type: ignore[list-item]
    met = True
    for kind in kinds:
        with queue(kind) as deep:
            found = measure(deep, jobs)
        show(kind, jobs, found)
        met &= all(ratio.ratio <= WORST for ratio in found if not ratio.words.startswith("nothing"))
    if not met:
        raise typer.Exit(1)


class Queue:
    """A running API whose jobs need a GPU, so that they wait; and a worker without one, when it is wanted."""

    def __init__(self, service: ServiceProcess, root: Path, env: dict[str, str], engine: Engine) -> None:
        self.http = service.http
        self._root, self._env, self._engine = root, env, engine
        self._folder = service.data_dir
        self._number = count()
        self.waiting: list[str] = []

    def submit(self) -> float:
        """Ask for an analysis that will wait; the seconds that took."""
        source = self._new_file()
        answer, seconds = timed(lambda: self._ask(source, device="cuda", priority="batch"))
        self.waiting.append(answer["id"])
        return seconds

    def get(self, path: str) -> float:
        return timed(lambda: self.http.get(path).raise_for_status())[1]

    def claim(self) -> float:
        """Claim a waiting analysis, drawn at random; give it back when the clock has stopped."""
        waiting = random.choice(self.waiting)  # noqa: S311

        def claim() -> Any:
            with UnitOfWork(self._engine) as uow:
                return uow.jobs.claim(waiting, lease_seconds=60)

        claimed, seconds = timed(claim)
        with UnitOfWork(self._engine) as uow:
            uow.jobs.release(waiting, claimed.fence, "the clock has stopped")
        return seconds

    def run(self) -> float:
        """Seconds from accepting an analysis that the worker may run to its start."""
        asked = self._ask(self._new_file())
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := self.http.get(f"/v1/analyses/{asked['id']}").json())["status"] != "succeeded":
            if time.monotonic() > deadline or found["status"] == "failed":
                raise RuntimeError(f"the worker did not do it: {found}")
            time.sleep(0.02)
        time.sleep(PAUSE_SECONDS)
        return _epoch(found["started_at"]) - _epoch(found["created_at"])

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A real worker on the CPU, with its reconcile loop, once it has answered."""
        with (self._folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                attached([sys.executable, "-m", "workers"]), env=worker_environment(self._env), stdout=log, stderr=log
            )
        try:
            self.run()
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            process.kill()
            process.wait()

    def _ask(self, path: str, **more: str) -> dict[str, Any]:
        body = {"kind": "embedding", "source": {"type": "path", "path": path}, **more}
        answer: dict[str, Any] = self.http.post("/v1/analyses", json=body).raise_for_status().json()
        return answer

    def _new_file(self) -> str:
        number = next(self._number)
        name = f"{number % 100}/{number}.npy"
        (self._root / name).parent.mkdir(exist_ok=True)
        np.save(self._root / name, np.random.default_rng(number).standard_normal((20, 4), dtype=np.float32))
        return name


@contextmanager
def queue(kind: Database) -> Iterator[Queue]:
    """Servers of their own on temporary folders; gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gramian-bench-")))
        (root := folder / "root").mkdir()
        valkey = ValkeyServer()
        stack.callback(valkey.remove)
        url = f"sqlite:///{folder / 'data' / 'gramian.db'}"
        if kind == "postgresql":
            postgres = PostgresServer()
            stack.callback(postgres.remove)
            url = postgres.create_database()
        env = {
            "GRAMIAN_DATABASE_URL": url,
            "GRAMIAN_REDIS_URL": valkey.url,
            "GRAMIAN_DATA_DIR": str(folder / "data"),
            "GRAMIAN_PATH_ROOT": str(root),
            "GRAMIAN_DEVICE": "cpu",
        }
        service = ServiceProcess(folder / "data", "--no-worker", env=env)
        stack.callback(service.stop)
        engine = open_engine(url)
        stack.callback(engine.dispose)
        yield Queue(service, root, clean_environment() | env, engine)


def measure(deep: Queue, jobs: int) -> list[Ratio]:
    tenth = jobs // 10
    lists = {"list": "/v1/analyses", "list, status=queued": "/v1/analyses?status=queued", "nothing (/livez)": "/livez"}
    with console.status("the worker on an empty queue"), deep.worker():
        runs = [deep.run() for _ in range(RUN_TIMES)]
    with console.status("filling the queue") as status:
        submits = [deep.submit() for _ in range(tenth)]
        gets = {path: [deep.get(path) for _ in range(LIST_TIMES)] for path in lists.values()}
        claims = [deep.claim() for _ in range(CLAIM_TIMES)]
        while len(deep.waiting) < jobs:
            submits.append(deep.submit())
            status.update(f"filling the queue: {len(deep.waiting):,} of {jobs:,}")
    found = [Ratio(f"submit (the first and the last {tenth:,})", submits[:tenth], submits[-tenth:])]
    found += [Ratio(words, gets[path], [deep.get(path) for _ in range(LIST_TIMES)]) for words, path in lists.items()]
    found.append(Ratio("claim a row", claims, [deep.claim() for _ in range(CLAIM_TIMES)]))
    with console.status("the worker beside a long queue"), deep.worker():
        found.append(Ratio("accepted to running", runs, [deep.run() for _ in range(RUN_TIMES)]))
    return found


def show(kind: Database, jobs: int, found: list[Ratio]) -> None:
    table = Table(title=f"{kind}: medians in ms, at the start and with {jobs:,} jobs waiting", title_justify="left")
    table.add_column("")
    for heading in ("start", "end", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for ratio in found:
        start, end = (f"{1000 * statistics.median(series):.1f}" for series in (ratio.start, ratio.end))
        verdict = "" if ratio.ratio <= WORST else " !"
        table.add_row(ratio.words, start, end, f"{ratio.ratio:.2f}×{verdict}")
    console.print(table)


def _exit(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise SystemExit(143)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    typer.run(main)
