"""Processes that end with the one that started them: `python -m gramian.lifetime PARENT COMMAND ARGUMENTS…`."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

PR_SET_PDEATHSIG = 1
RESTART_SECONDS = 1.0

log = logging.getLogger("gramian.lifetime")

Process = subprocess.Popen[bytes]


def attached(command: list[str]) -> list[str]:
    """The command line that runs `command` so that it gets SIGTERM when its parent is gone."""
    return [sys.executable, "-m", "gramian.lifetime", str(os.getpid()), *command]


def end_with_parent(parent: int) -> None:
    """Ask the kernel for SIGTERM at the end of the process `parent` that started this one (Linux).

    It may have ended while this one was still being loaded: then this is the end here too.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)


def terminate(process: Process) -> None:
    process.terminate()
    process.wait()


@contextmanager
def kept_running(
    name: str,
    command: list[str],
    *,
    environ: Mapping[str, str] | None = None,
    stop: Callable[[Process], None] = terminate,
) -> Iterator[None]:
    """A process that is started again whenever it ends, for as long as the block runs."""
    stopping = threading.Event()
    started = threading.Event()
    current: list[Process] = []

    def watch() -> None:
        while not stopping.is_set():
            # its own session: Ctrl-C in the terminal is for us alone, we stop the children in order
            process = subprocess.Popen(command, env=environ, start_new_session=True, stdin=subprocess.DEVNULL)  # noqa: S603
            current[:] = [process]
            started.set()
            if stopping.is_set():  # it was asked to stop while the new one was being made
                stop(process)
            code = process.wait()
            if not stopping.wait(RESTART_SECONDS):
                log.warning("%s ended with code %d, starting it again", name, code)

    thread = threading.Thread(target=watch, name=f"watch-{name}", daemon=True)
    thread.start()
    started.wait()
    try:
        yield
    finally:
        stopping.set()
        stop(current[0])
        thread.join()


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  (the command is our own)
