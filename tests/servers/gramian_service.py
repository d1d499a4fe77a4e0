"""The whole service as a user runs it: `gramian serve` in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import psutil

from gramian.lifetime import attached


class ServiceProcess:
    """`gramian serve` on a free loopback port; a client for it; what it printed."""

    def __init__(self, data_dir: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        self.log = data_dir / "serve.log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                attached(
                    [sys.executable, "-m", "service", "serve", "--port", "0", "--data-dir", str(data_dir), *arguments]
                ),
                env=clean_environment() | dict(env or {}),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.url = self._await_address()
        self.http = httpx2.Client(base_url=self.url, timeout=90, trust_env=False)
        self._await_ready()

    def family(self) -> list[psutil.Process]:
        """The service and every process below it."""
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the service, wait for its end, return its exit code."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def upload(self, path: Path, filename: str | None = None) -> dict[str, Any]:
        answer = self.http.post("/v1/uploads", params={"filename": filename or path.name}, content=path.read_bytes())
        assert answer.status_code == 201, answer.text
        return answer.json()

    def analyse(self, source: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Ask and wait for the end."""
        body = {"kind": "embedding", "source": source, **more}
        answer = self.http.post("/v1/analyses", json=body, headers={"Prefer": "wait=60"})
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    def _await_address(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                found = json.loads((self.data_dir / "serve.json").read_text())
            except (OSError, ValueError):
                found = {}
            if found.get("pid") == self.process.pid:
                return found["url"]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"the service did not start:\n{self.log.read_text()}")

    def _await_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if self.http.get("/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"the service did not become ready:\n{self.log.read_text()}")


def clean_environment() -> dict[str, str]:
    """Ours, without the settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("GRAMIAN_", "HF_"))}
