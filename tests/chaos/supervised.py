"""A process that is started again whenever it ends, as an operator's supervisor would."""

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gramian.lifetime import attached

RESTART_SECONDS = (0.1, 1.5)  # between its end and its next start
END_SECONDS = 40  # the longest that anything may take to end after SIGTERM


@dataclass
class Supervised:
    """The process, what was wrong with its ends, and how often it ended though nobody had harmed it."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    findings: list[str] = field(default_factory=list)
    exits: Counter[str] = field(default_factory=Counter)
    _due: float = 0.0  # when to start it
    _asked_to_end: float | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                attached(list(self.command)),
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._asked_to_end = None

    def expect_end(self) -> None:
        """It is sent SIGTERM now: it must end in time, and with code 0."""
        self._asked_to_end = time.monotonic()

    def look_after(self, draw: random.Random) -> None:
        """Start it again if it has ended; call this often."""
        now = time.monotonic()
        if self.process is None:
            if now >= self._due:
                self.start()
        elif (code := self.process.poll()) is not None:
            self._note(code)
            self.process, self._due = None, now + draw.uniform(*RESTART_SECONDS)
        elif self._asked_to_end is not None and now > self._asked_to_end + END_SECONDS:
            self.findings.append(f"{self.name} did not end in {END_SECONDS} s after SIGTERM")
            self.process.kill()

    def _note(self, code: int) -> None:
        if code == -signal.SIGKILL:
            return
        if self._asked_to_end is None:
            self.exits[f"{self.name}, code {code}"] += 1
        elif code != 0:
            self.findings.append(f"{self.name} ended with code {code} after SIGTERM")
