"""`make bench`: Gramian against the published way on real weights. It takes minutes and some 6 GB of memory."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from math import isclose
from types import FrameType
from typing import Annotated, Any

import psutil
import torch
import typer
from rich.console import Console

from benchmarks.contender import CONTENDERS
from benchmarks.report import Series, goals, judge, show
from benchmarks.warm_service import HTTP_ERRORS, Run, WarmService, warm_service
from gramian.lifetime import attached

GIB = 1024**3
NEEDED_BYTES = 7 * GIB  # the n×n product and its triangle take 5.6e9 bytes, everything else the rest
LIMIT_SECONDS = 300  # of one run of one contender: ten times what the slowest needs
SAME = 1e-6  # relative; all contenders multiply in float32
QUESTIONS = 3  # to the service in every run: each takes half a second
STRAY_SETTINGS = ("GRAMIAN_", "HF_")

NAMES = {
    "published": "published way",
    "blocks": "pairs in blocks",
    "moments": "gramian, moments",
    "service": "gramian, service",
}

console = Console()


def main(
    runs: Annotated[int, typer.Option(min=1, help="Runs of every contender, interleaved.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="One run of each: a look, not a measurement.")] = False,
) -> None:
    """Measure, print, and exit with 1 if a promised ratio is missed, with 2 if nothing could be measured."""
    signal.signal(signal.SIGTERM, _exit)
    if sys.platform != "linux":
        _give_up("peak memory is read from /proc, which only Linux has")
    free = psutil.virtual_memory().available
    if free < NEEDED_BYTES:
        _give_up(f"the published way needs {NEEDED_BYTES / GIB:.0f} GiB of memory, {free / GIB:.1f} are free")
    for name in [name for name in os.environ if name.startswith(STRAY_SETTINGS)]:
        del os.environ[name]  # another database or device is not what is measured here
    try:
        measured = _measure(1 if quick else runs)
    except (subprocess.SubprocessError, *HTTP_ERRORS) as error:
        _give_up(str(error))
    published, moments, service = measured["published"], measured["moments"], measured["service"]
    show(console, list(measured.values()), against=published)
    if not judge(console, goals(published=published, service=service, moments=moments)):
        raise typer.Exit(1)


def _measure(runs: int) -> dict[str, Series]:
    load = os.getloadavg()[0]
    console.print(
        f"all-MiniLM-L6-v2, token embedding 30522×384 float32; {os.cpu_count()} cores, torch {torch.__version__}, "
        f"load {load:.1f} before the start, {runs} runs",
        highlight=False,
        soft_wrap=True,
    )
    if load > 0.5:
        console.print("[yellow]something else is running: times will be longer and ratios uncertain[/]")
    alone: dict[str, list[dict[str, Any]]] = defaultdict(list)
    asked: list[Run] = []
    with ExitStack() as stack:
        service: WarmService = stack.enter_context(warm_service())
        progress = stack.enter_context(console.status("starting"))
        for number in range(1, runs + 1):
            for name in CONTENDERS:
                progress.update(f"run {number} of {runs}: {NAMES[name]}")
                alone[name].append(_in_own_process(name))
            progress.update(f"run {number} of {runs}: {NAMES['service']}")
            asked += [service.run() for _ in range(QUESTIONS)]
        peaks = [service.peaks() for _ in range(runs)]
    _check_agreement([run["epsilon"] for found in alone.values() for run in found] + [run.epsilon for run in asked])
    series = {
        name: Series(
            NAMES[name],
            [run["seconds"] for run in found],
            [run["peak_bytes"] for run in found],
            [run["steps"] for run in found],
        )
        for name, found in alone.items()
    }
    steps = [{"outside the job": run.seconds - sum(run.steps.values())} | run.steps for run in asked]
    together = [sum(peak.values()) for peak in peaks]
    series["service"] = Series(NAMES["service"], [run.seconds for run in asked], together, steps)
    each = ", ".join(f"{role} {size / 1e6:,.0f}" for role, size in peaks[-1].items())
    console.print(f"peak MB of the service's processes: {each}", highlight=False, soft_wrap=True)
    return series


def _in_own_process(name: str) -> dict[str, Any]:
    command = attached([sys.executable, "-m", "benchmarks.contender", name])
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    if ended.returncode != 0:
        raise subprocess.SubprocessError(f"{name} ended with code {ended.returncode}:\n{ended.stderr}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def _check_agreement(epsilons: Sequence[float]) -> None:
    if not all(isclose(epsilon, epsilons[0], rel_tol=SAME) for epsilon in epsilons):
        _give_up(f"the contenders do not agree on ε: {sorted(set(epsilons))}")


def _give_up(why: str) -> None:
    console.print(f"[bold red]no measurement[/]: {why}", highlight=False, soft_wrap=True)
    raise typer.Exit(2)


def _exit(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise SystemExit(143)


if __name__ == "__main__":
    typer.run(main)
