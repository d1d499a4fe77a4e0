"""The packing analysis: k lines in d dimensions by descent, by random draws or by a code; their ε*, and their file."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.answers import bounds_answer
from gramian.geometry.baselines import welch_bound
from gramian.geometry.bounds import brackets
from gramian.geometry.explicit_lines import explicit_lines
from gramian.geometry.packing import Packing, PackingProgress, best_of_starts, random_packing
from gramian.geometry.published_packings import published_epsilon
from gramian.specs import PackingSpec
from gramian.storage.blobs import artifact_store
from gramian.storage.jobs import Outcome
from workers.devices import choose_device, device_name
from workers.progress import Progress
from workers.runs import Run
from workers.safetensors_file import safetensors_header

VECTORS_FILE = "vectors.safetensors"
NUMBERS_AT_ONCE = 1 << 20  # of the file: 4 MiB

SMALL = 1 << 27  # k²·d: a step takes a few milliseconds, and threads would wait for each other, on busy cores for long

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Lines:
    """What a method found.

    Attributes
    ----------
    epsilon : float
        ε*.
    blocks : callable
        Called with a number of rows: all (k, d) rows of unit length, in blocks of so many.
    steps : int or None
        Done; None for a method that has none.
    history : list of (step, ε)
    starts : int or None
        Descents of which these lines are the best.
    device : torch.device
    proof : dict or None
        How ε* is known, where not by looking at all pairs.
    """

    epsilon: float
    blocks: Callable[[int], Iterator[Rows]]
    device: torch.device
    steps: int | None = None
    history: list[tuple[int, float]] = field(default_factory=list)
    starts: int | None = None
    proof: dict[str, Any] | None = None


def find_packing(run: Run[PackingSpec]) -> Outcome:
    """Find the lines, write them to a file, and say how good they are."""
    spec, progress = run.spec, run.progress
    if spec.vectors**2 * spec.dim <= SMALL:
        torch.set_num_threads(1)  # of this process, which has no other job
    lines = METHODS[spec.method](run)
    bound = welch_bound(spec.vectors, spec.dim)
    stored = artifact_store(run.settings).store(_file(spec, lines, progress), size=4 * spec.vectors * spec.dim)
    progress.close()
    return Outcome(
        device=device_name(lines.device),
        torch_version=str(torch.__version__),
        seconds=progress.seconds,
        digest=f"sha256:{stored.sha256}",
        files={VECTORS_FILE: stored},
        answer={
            "epsilon": lines.epsilon,
            "vectors": spec.vectors,
            "dim": spec.dim,
            "method": spec.method,
            "welch_bound": bound,
            "ratio_to_welch": lines.epsilon / bound if bound else None,
            "published_epsilon": published_epsilon(spec.vectors, spec.dim, random=spec.method == "random"),
            "seed": None if lines.steps is None else spec.seed,
            "steps": lines.steps,
            "starts": lines.starts,
            "history": [list(point) for point in lines.history],
            "proof": lines.proof,
            "bounds": bounds_answer(brackets(spec.dim, lines.epsilon)),
        },
    )


def _optimized(run: Run[PackingSpec]) -> Lines:
    spec = run.spec
    device = choose_device(run.settings, required=spec.device)
    generator = torch.Generator(device).manual_seed(spec.seed)
    watch = _watching(run, "optimize", "steps", total=spec.rounds * spec.restarts)
    found = best_of_starts(
        spec.vectors, spec.dim, steps=spec.rounds, starts=spec.restarts, generator=generator, report=watch
    )
    return replace(_searched(found), starts=found.starts)


def _random(run: Run[PackingSpec]) -> Lines:
    spec = run.spec
    device = choose_device(run.settings, required=spec.device)
    generator = torch.Generator(device).manual_seed(spec.seed)
    watch = _watching(run, "draw", "draws", total=spec.rounds)
    return _searched(random_packing(spec.vectors, spec.dim, draws=spec.rounds, generator=generator, report=watch))


def _code(run: Run[PackingSpec]) -> Lines:
    spec = run.spec
    run.progress("prove", 0.0, "proving the coherence by Walsh–Hadamard transforms")
    found = explicit_lines(spec.vectors, spec.dim)
    return Lines(found.epsilon, found.blocks, torch.device("cpu"), proof=asdict(found.proof))


METHODS: Mapping[str, Callable[[Run[PackingSpec]], Lines]] = {
    "optimized": _optimized,
    "random": _random,
    "code": _code,
}


def _searched(found: Packing) -> Lines:
    def blocks(rows: int) -> Iterator[Rows]:
        for start in range(0, len(found.vectors), rows):
            yield found.vectors[start : start + rows].cpu().numpy()

    return Lines(found.epsilon, blocks, found.vectors.device, found.steps, list(found.history))


def _file(spec: PackingSpec, lines: Lines, progress: Progress) -> Iterator[bytes]:
    metadata = {"epsilon": repr(lines.epsilon), "method": spec.method}
    yield safetensors_header({"vectors": (spec.vectors, spec.dim)}, metadata=metadata)
    written = 0
    for block in lines.blocks(max(1, NUMBERS_AT_ONCE // spec.dim)):
        yield block.astype("<f4", copy=False).tobytes()
        written += len(block)
        share = written / spec.vectors if lines.proof else 1.0  # an explicit set takes no time but for this
        progress("write", share, "writing the vectors", done=written, total=spec.vectors, unit="vectors")


def _watching(run: Run[PackingSpec], stage: str, unit: str, *, total: int) -> Callable[[PackingProgress], None]:
    def watch(at: PackingProgress) -> None:
        words = f"{at.step:,} of {total:,} {unit}, ε = {at.epsilon:.5f}"
        run.progress(stage, at.step / total, words, done=at.step, total=total, unit=unit)

    return watch
