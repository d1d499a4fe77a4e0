"""What is asked while things break, and what must come of each question."""

import io
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import save

from tests.e2e.oracle import epsilon
from tests.hub.loopback import LoopbackHub

Matrix = npt.NDArray[np.float32]

LONG_SHAPES = ((6_000, 768), (6_000, 1024), (12_000, 1024))  # seconds each: they outlive leases of two seconds


@dataclass(frozen=True)
class Expected:
    """How the analysis must end: ε of each of its matrices, or of its packing, or the code of its failure."""

    epsilons: tuple[float, ...] = ()
    code: str | None = None  # of the stored error, or of the refusal where the question is refused at once
    is_refused: bool = False
    may_be_cancelled: bool = False


@dataclass(frozen=True)
class Question:
    """One question that nobody else asks: of a source, of an `upload` named `filename`, or of `parameters` alone."""

    number: int
    kind: str
    expected: Expected
    source: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    upload: bytes = b""
    filename: str = ""
    file: Path | None = None  # removed when the answer is there
    cancel_after: float | None = None  # seconds


class Questions:
    """Makes questions of every kind, in the proportions of SHARES."""

    def __init__(self, path_root: Path, hub: LoopbackHub, *, seed: int) -> None:
        self._root = path_root
        self._hub = hub
        self._seed = seed

    def plan(self, count: int) -> list[str]:
        """Kinds of `count` questions: each kind at least once, the order drawn."""
        whole = sum(SHARES.values())
        kinds = [kind for kind, share in SHARES.items() for _ in range(max(1, round(count * share / whole)))]
        random.Random(self._seed).shuffle(kinds)
        return kinds

    def make(self, number: int, kind: str) -> Question:
        draw = random.Random(f"{self._seed}/{number}")
        return MAKERS[kind](self, number, kind, draw)

    # -- one maker a kind --

    def _safetensors_upload(self, number: int, kind: str, draw: random.Random) -> Question:
        matrix = self._matrix(number, draw)
        return Question(number, kind, right(matrix), upload=save({"wte.weight": matrix}), filename="m.safetensors")

    def _npy_upload(self, number: int, kind: str, draw: random.Random) -> Question:
        matrix = self._matrix(number, draw)
        return Question(number, kind, right(matrix), upload=npy(matrix), filename="m.npy")

    def _path(self, number: int, kind: str, draw: random.Random) -> Question:
        matrix = self._matrix(number, draw)
        return self._at_path(number, kind, right(matrix), save({"wte.weight": matrix}), f"small-{number}.safetensors")

    def _long_path(self, number: int, kind: str, draw: random.Random, **more: Any) -> Question:
        base = draw.randrange(len(LONG_SHAPES))
        prototype = self._root / f"long-{base}.npy"
        if not prototype.exists():
            new = prototype.with_suffix(f".{number}")  # other callers may make it at the same time
            new.write_bytes(npy(long_matrix(base)))
            new.replace(prototype)
        file = self._root / f"long-{base}-{number}.npy"
        shutil.copyfile(prototype, file)
        expected = Expected((long_epsilon(base),), may_be_cancelled=bool(more))
        return Question(number, kind, expected, source={"type": "path", "path": file.name}, file=file, **more)

    def _cancelled(self, number: int, kind: str, draw: random.Random) -> Question:
        return self._long_path(number, kind, draw, cancel_after=draw.uniform(0, 3))

    def _hub_model(self, number: int, kind: str, draw: random.Random) -> Question:
        tables = self._matrix(number, draw), self._matrix(number + 1_000_000, draw)
        shape = tables[0].shape
        head = np.resize(tables[1], shape) + np.float32(0.1)
        names = {"model.embed_tokens.weight": tables[0], "lm_head.weight": head}
        files = {"config.json": b'{"tie_word_embeddings": false}', "model.safetensors": save(names)}
        return self._on_hub(number, kind, right(tables[0], head), files)

    def _packing(self, number: int, kind: str, draw: random.Random) -> Question:
        size = {"vectors": draw.randrange(20, 200), "dim": draw.randrange(2, 40), "draws": 100, "seed": number}
        parameters = {"kind": "packing", "method": "random"} | size
        return Question(number, kind, Expected((best_of_draws(**size),)), parameters=parameters)

    def _no_vocabulary(self, number: int, kind: str, draw: random.Random) -> Question:
        files = {"config.json": b"{}", "model.safetensors": save({"layers.0.mlp.weight": self._matrix(number, draw)})}
        return self._on_hub(number, kind, Expected(code="tensor_not_found"), files)

    def _integers(self, number: int, kind: str, draw: random.Random) -> Question:
        table = np.full((9, 4), number % 100, dtype=np.int8)
        data = save({"wte.weight": table}, metadata={"number": str(number)})
        return Question(number, kind, Expected(code="unsupported_dtype"), upload=data, filename="m.safetensors")

    def _missing_path(self, number: int, kind: str, draw: random.Random) -> Question:
        expected = Expected(code="path_not_found", is_refused=True)
        return Question(number, kind, expected, source={"type": "path", "path": f"missing-{number}.npy"})

    def _dies_once(self, number: int, kind: str, draw: random.Random) -> Question:
        matrix = self._matrix(number, draw)
        name = f"dies-{kind.rsplit(maxsplit=1)[-1]}-once-{number}.npy"
        return self._at_path(number, kind, right(matrix), npy(matrix), name)

    def _dies_always(self, number: int, kind: str, draw: random.Random) -> Question:
        matrix = self._matrix(number, draw)
        name = f"dies-{kind.rsplit(maxsplit=1)[-1]}-always-{number}.npy"
        return self._at_path(number, kind, Expected(code="worker_died"), npy(matrix), name)

    # -- parts --

    def _matrix(self, number: int, draw: random.Random) -> Matrix:
        rows, dim = draw.randrange(100, 3000), draw.choice((8, 24, 64))
        drift = np.float32(draw.uniform(0, 1))
        return np.random.default_rng([self._seed, number]).standard_normal((rows, dim), dtype=np.float32) + drift

    def _at_path(self, number: int, kind: str, expected: Expected, data: bytes, name: str) -> Question:
        (self._root / name).write_bytes(data)
        source = {"type": "path", "path": name}
        return Question(number, kind, expected, source=source, file=self._root / name)

    def _on_hub(self, number: int, kind: str, expected: Expected, files: dict[str, Any]) -> Question:
        model_id = f"chaos/model-{number}"
        self._hub.add_model(model_id, files)
        return Question(number, kind, expected, source={"type": "hub", "model_id": model_id})


#: Questions of a kind among a hundred, about.
SHARES = {
    "safetensors upload": 20,
    "npy upload": 14,
    "path": 20,
    "long path": 8,
    "hub model": 14,
    "packing": 6,
    "hub model without a vocabulary": 2,
    "upload of integers": 2,
    "missing path": 2,
    "long path, taken back": 3,
    "child dies once: segfault": 2,
    "child dies once: killed": 2,
    "child dies once: exit": 2,
    "child dies always: segfault": 1,
    "child dies always: killed": 1,
    "child dies always: exit": 1,
}

MAKERS: dict[str, Callable[[Questions, int, str, random.Random], Question]] = {
    "safetensors upload": Questions._safetensors_upload,
    "npy upload": Questions._npy_upload,
    "path": Questions._path,
    "long path": Questions._long_path,
    "hub model": Questions._hub_model,
    "packing": Questions._packing,
    "hub model without a vocabulary": Questions._no_vocabulary,
    "upload of integers": Questions._integers,
    "missing path": Questions._missing_path,
    "long path, taken back": Questions._cancelled,
    **{kind: Questions._dies_once for kind in SHARES if kind.startswith("child dies once")},
    **{kind: Questions._dies_always for kind in SHARES if kind.startswith("child dies always")},
}


def right(*matrices: Matrix) -> Expected:
    return Expected(tuple(epsilon(matrix.astype(np.float64)) for matrix in matrices))


@cache
def long_epsilon(base: int) -> float:
    return epsilon(long_matrix(base).astype(np.float64))


def long_matrix(base: int) -> Matrix:
    return np.random.default_rng(base).standard_normal(LONG_SHAPES[base], dtype=np.float32)


def best_of_draws(*, vectors: int, dim: int, draws: int, seed: int) -> float:
    """The least largest |cosine| of sets of directions drawn one after the other from one generator."""
    generator = torch.Generator().manual_seed(seed)
    largest = []
    for _ in range(draws):
        U = torch.nn.functional.normalize(torch.randn(vectors, dim, generator=generator).double()).numpy()
        largest.append(np.abs(U @ U.T)[np.triu_indices(vectors, 1)].max())
    return float(min(largest))


def npy(matrix: Matrix) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, matrix)
    return buffer.getvalue()
