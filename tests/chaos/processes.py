"""Which processes a run has started, directly or not, and what each of them is."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

MARK = "CHAOS_RUN"  # in the environment of everything that a run starts: its folder; children inherit it


def marked(folder: Path) -> Iterator[psutil.Process]:
    """Every living process of the run, also those that lost their parents."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()  # Valkey writes its title over its environment; its socket lies in the folder
            is_ours = process.environ().get(MARK) == str(folder) or (_is_valkey(words) and str(folder) in words[0])
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except psutil.Error:
            continue


def role(process: psutil.Process) -> str | None:
    """`API`, `worker`, `child` (a job's own process), `reconcile loop`, `Valkey`; None while it is being started."""
    try:
        words, session = process.cmdline(), os.getsid(process.pid)
    except (psutil.Error, ProcessLookupError):
        return None
    if "gramian.lifetime" in words:
        return None
    if "workers" in words:  # a child is a fork, with its worker's words and in its worker's session
        return "worker" if session == process.pid else "child"
    if "workers.reconcile" in words:
        return "reconcile loop"
    if _is_valkey(words):
        return "Valkey"
    return "API" if "serve" in words else None


def _is_valkey(words: list[str]) -> bool:
    return bool(words) and "valkey-server" in words[0]
