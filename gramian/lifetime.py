"""Processes that end with the one that started them: `python -m gramian.lifetime PARENT COMMAND ARGUMENTS…`."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


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


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  (the command is our own)
