"""`make packings`: the campaign of optimised packings behind docs/packings.md, within the hour on two idle cores.

Every finished cell is kept as a line of JSON outside the tree; run again, the campaign goes on from there. Once all
cells are done they are written to docs/packings/campaign.csv, and the tables of docs/packings.md anew.
"""

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from platformdirs import user_cache_path
from rich.console import Console

from benchmarks.packing_report import CAMPAIGN, PAGE, ROOT, Cell, render, tables, write_cells
from gramian.geometry.packing import PackingProgress, optimize_packing

VECTORS = (2000, 4000)
DIMS = (32, 64, 128, 256, 512, 768, 1024)
# The cheapest first: a step multiplies k·k·d numbers.
CELLS = sorted(((k, d) for k in VECTORS for d in DIMS), key=lambda cell: cell[0] ** 2 * cell[1])
KEPT = user_cache_path("gramian") / "packings.jsonl"

console = Console()


def main(
    steps: Annotated[int, typer.Option(min=1, help="Steps of descent a cell.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of every cell's random start.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = os.cpu_count() or 1,
    kept: Annotated[Path, typer.Option(help="Finished cells, one a line.")] = KEPT,
) -> None:
    """Find what is missing, print it beside what was published, and write the tables when nothing is missing."""
    torch.set_num_threads(threads)
    kept.parent.mkdir(parents=True, exist_ok=True)
    done = {(cell.vectors, cell.dim): cell for cell in _read_lines(kept) if (cell.steps, cell.seed) == (steps, seed)}
    code = _commit()
    for k, d in CELLS:
        if (k, d) not in done:
            done[k, d] = _run(k, d, steps=steps, seed=seed, code=code)
            with kept.open("a") as lines:
                lines.write(json.dumps(asdict(done[k, d])) + "\n")
        found, theirs = done[k, d].epsilon, done[k, d].published
        console.print(
            f"k = {k}, d = {d:4}: ε* = {found:.5f}, published {theirs:.5f}, ratio {found / theirs:.3f}, "
            f"{done[k, d].seconds:.0f} s",
            highlight=False,
        )
    cells = [done[cell] for cell in sorted(done)]
    write_cells(cells)
    PAGE.write_text(render(PAGE.read_text(), tables(cells)))
    console.print(f"written: {CAMPAIGN.relative_to(ROOT)}, {PAGE.relative_to(ROOT)}")


def _run(k: int, d: int, *, steps: int, seed: int, code: str) -> Cell:
    seconds = 0.0
    with console.status("") as status:

        def report(progress: PackingProgress) -> None:
            nonlocal seconds
            seconds = progress.seconds
            status.update(f"k = {k}, d = {d}: step {progress.step} of {steps}, ε = {progress.epsilon:.5f}")

        found = optimize_packing(k, d, steps=steps, generator=torch.Generator().manual_seed(seed), report=report)
    return Cell(k, d, found.epsilon, found.steps, seed, round(seconds, 1), code)


def _read_lines(path: Path) -> list[Cell]:
    return [Cell(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    typer.run(main)
