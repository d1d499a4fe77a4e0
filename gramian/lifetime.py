"""Processes that end with the one that started them: `python -m gramian.lifetime COMMAND ARGUMENTS…`."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def attached(command: list[str]) -> list[str]:
    """The command line that runs `command` so that it gets SIGTERM when its parent is gone."""
    return [sys.executable, "-m", "gramian.lifetime", *command]


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM at the parent's end (Linux; elsewhere nothing happens)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    end_with_parent()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  (the command is our own)
