"""One contender in a process of its own: `python -m benchmarks.contender NAME` prints one line of JSON.

The clock runs from opening the file to ε. Before it starts, the same code has run on a small matrix of random numbers:
imports, threads and first calls cost nothing any more.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from benchmarks.brute_force import BruteForce, block_by_block, published_way
from benchmarks.memory import peak_bytes
from benchmarks.real_weights import TENSOR, minilm
from gramian.geometry.similarity import cosine_moments
from gramian.weights.sources import FileSource
from gramian.weights.vocabulary import read_vocabulary

BLOCK_ROWS = 4096

Answer = tuple[float, dict[str, float]]  # ε, and the seconds of the steps where it has several


def published(file: Path) -> Answer:
    return _answer(published_way(_whole(file)))


def blocks(file: Path) -> Answer:
    return _answer(block_by_block(_whole(file)))


def moments(file: Path) -> Answer:
    with FileSource(file) as source:
        ((_, matrix),) = read_vocabulary(source).matrices
        return cosine_moments(matrix.blocks(BLOCK_ROWS), dim=matrix.dim).epsilon, {}


CONTENDERS = MappingProxyType({"published": published, "blocks": blocks, "moments": moments})


def _answer(found: BruteForce) -> Answer:
    return found.epsilon, found.seconds


def _whole(file: Path) -> np.ndarray:
    with safe_open(file, framework="numpy") as stored:
        matrix: np.ndarray = stored.get_tensor(TENSOR)  # (n, d) float32
        return matrix


def _warm(contender: Callable[[Path], Answer]) -> None:
    with tempfile.TemporaryDirectory(prefix="gramian-bench-") as folder:
        file = Path(folder) / "small.safetensors"
        rows = np.random.default_rng(0).standard_normal((2000, 384), dtype=np.float32)
        save_file({TENSOR: rows}, file)
        contender(file)


def main(name: str) -> None:
    contender = CONTENDERS[name]
    _warm(contender)
    started = time.perf_counter()
    epsilon, steps = contender(minilm())
    seconds = time.perf_counter() - started
    print(json.dumps({"epsilon": epsilon, "seconds": seconds, "steps": steps, "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main(sys.argv[1])
