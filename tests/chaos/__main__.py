"""`make chaos`: a long run in each form of the service. Exits with 1 if anything was found wrong."""

import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.chaos.report import report
from tests.chaos.run import Order, chaos
from tests.chaos.world import ROOT

DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"


def main(
    jobs: Annotated[int, typer.Option(min=1, help="Jobs, in both forms together.")] = 2000,
    kills: Annotated[int, typer.Option(min=1, help="Processes killed, in both forms together.")] = 100,
    seed: Annotated[int, typer.Option(help="Draws questions and faults.")] = 1,
    form: Annotated[str, typer.Option(help="cluster, embedded, or both.")] = "both",
    write: Annotated[bool, typer.Option("--write", help=f"Keep the tables in docs/{DOCUMENT.name}.")] = False,
) -> None:
    """Ask, harm, check; print the tables of what was survived."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    forms = ["cluster", "embedded"] if form == "both" else [form]
    runs = []
    for variant in forms:
        folder = Path(tempfile.mkdtemp(prefix="gramian-chaos-"))
        order = Order(variant, jobs // len(forms), kills // len(forms), seed)  # type: ignore[arg-type]
        started = time.monotonic()
        try:
            run = chaos(
                order, folder, tell=lambda words, variant=variant, started=started: _tell(variant, started, words)
            )
        except BaseException:
            print(f"logs are in {folder}", file=sys.stderr)
            raise
        runs.append(run)
        print(f"\n{report(run)}\n", flush=True)
        if run.findings:
            print(f"logs are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)
    text = "\n\n".join(report(run) for run in runs)
    if write:
        _keep(f"{_machine()}\n\n```bash\n{_command(jobs, kills, seed)}\n```\n\n{text}")
    if any(run.findings for run in runs):
        raise typer.Exit(1)


def _tell(variant: str, started: float, words: str) -> None:
    print(f"{variant} {time.monotonic() - started:6.0f} s  {words}", file=sys.stderr, flush=True)


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB of memory, {platform.system()}, Python {platform.python_version()}:"
    )


def _command(jobs: int, kills: int, seed: int) -> str:
    return f"make chaos JOBS={jobs} KILLS={kills} SEED={seed}"


def _keep(text: str) -> None:
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    typer.run(main)
