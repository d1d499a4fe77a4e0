"""The service as a contender: `gramian serve` with its own worker, asked over HTTP on loopback."""

import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
from safetensors.numpy import save

from benchmarks.memory import peak_bytes
from benchmarks.real_weights import TENSOR, minilm
from gramian.settings import Settings
from service.client import Question, Session, service_for

LENGTH_BYTES = 8  # of the number before a safetensors header
LOOK_SECONDS = 0.005  # between two looks at a running job's memory
WARM_UPS = 3


@dataclass(frozen=True)
class Run:
    """One question: the clock from POST to succeeded, what the worker's own clocks say, and ε."""

    seconds: float
    steps: dict[str, float]
    epsilon: float


class WarmService:
    """A running service whose worker has already answered; every question to it is new, about the same matrix.

    A copy of the weight file with another remark in its header is another file: no earlier answer fits it. Copies go
    up before the clock starts and are deleted afterwards.
    """

    def __init__(self, session: Session) -> None:
        self._http = session.http
        self._number = count(1)
        self._process = _service_process()
        for _ in range(WARM_UPS):
            self._warm_up()

    def run(self) -> Run:
        """Time one question, on a worker that has just answered a small one.

        The kernel takes pages of a process that idles while others want memory, as the published way does: that is a
        cold worker, and not what is measured.
        """
        upload = self._upload(remarked_copy(minilm(), next(self._number)))
        self._warm_up()
        started = time.perf_counter()
        analysis = self._ask(upload)
        seconds = time.perf_counter() - started
        self._http.delete(f"/v1/uploads/{upload}").raise_for_status()
        (matrix,) = analysis["result"]["matrices"]
        return Run(seconds, analysis["provenance"]["seconds"], matrix["epsilon"]["value"])

    def peaks(self) -> dict[str, int]:
        """Peak memory in bytes by process, watched during a question that nobody times.

        The job's process is forked from the worker; pages that they share are counted in both.
        """
        upload = self._upload(remarked_copy(minilm(), next(self._number)))
        family = {self._role(process): process for process in self._process.children(recursive=True)}
        job = 0
        with ThreadPoolExecutor(max_workers=1) as pool:
            asked: Future[Any] = pool.submit(self._ask, upload)
            while not asked.done():
                job = max(job, max((_peak(child) for child in self._jobs(family["worker"])), default=0))
                time.sleep(LOOK_SECONDS)
            asked.result()
        self._http.delete(f"/v1/uploads/{upload}").raise_for_status()
        peaks = {role: _peak(process) for role, process in family.items()}
        return {"job": job, "API": _peak(self._process), **peaks}

    def _warm_up(self) -> None:
        rows = np.random.default_rng(next(self._number)).standard_normal((2000, 384), dtype=np.float32)
        self._ask(self._upload(save({TENSOR: rows})))

    def _upload(self, data: bytes) -> str:
        answer = self._http.post("/v1/uploads", params={"filename": "copy.safetensors"}, content=data)
        return str(answer.raise_for_status().json()["id"])

    def _ask(self, upload: str) -> dict[str, Any]:
        question = {"kind": "embedding", "source": {"type": "upload", "upload_id": upload}}
        answer = self._http.post("/v1/analyses", json=question, headers={"Prefer": "wait=60"})
        analysis: dict[str, Any] = answer.raise_for_status().json()
        if analysis["status"] != "succeeded" or analysis["deduplicated"]:
            raise RuntimeError(f"expected a new answer: {json.dumps(analysis)}")
        return analysis

    @classmethod
    def _jobs(cls, worker: psutil.Process) -> list[psutil.Process]:
        """Its children but the reconcile loop and the sender of webhooks."""
        return [child for child in worker.children() if cls._role(child) == "worker"]  # a fork has its parent's name

    @staticmethod
    def _role(process: psutil.Process) -> str:
        try:
            command = process.cmdline()
        except psutil.Error:  # it ended between two looks
            command = []
        known = {"workers": "worker", "workers.reconcile": "reconcile loop", "workers.webhooks": "webhook sender"}
        return next((known[word] for word in command if word in known), "Valkey") if command else "ended"


@contextmanager
def warm_service() -> Iterator[WarmService]:
    """A service on a temporary data folder; stopped and forgotten afterwards."""
    with tempfile.TemporaryDirectory(prefix="gramian-bench-") as folder:
        settings = Settings(data_dir=Path(folder), host="127.0.0.1", port=0, device="cpu")
        with service_for(Question(str(minilm())), url=None, settings=settings) as session:
            yield WarmService(session)


def _service_process() -> psutil.Process:
    """The child of this process that is the service."""
    return next(child for child in psutil.Process().children() if "serve" in child.cmdline())


def _peak(process: psutil.Process) -> int:
    try:
        return peak_bytes(process.pid)
    except (OSError, psutil.Error):  # it ended between two looks
        return 0


def remarked_copy(file: Path, number: int) -> bytes:
    """A safetensors file with a number in its header; the tensors' bytes are untouched."""
    data = file.read_bytes()
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    header = json.loads(data[LENGTH_BYTES:end])
    header["__metadata__"] = header.get("__metadata__", {}) | {"copy": str(number)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # as safetensors aligns its numbers
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + data[end:]


HTTP_ERRORS = (httpx2.HTTPError, RuntimeError)
