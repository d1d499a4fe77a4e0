"""What a worker does when a GPU's memory does not hold a block. The error is planted: it needs no GPU to be handled."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gramian.geometry.measurement import MatrixGeometry, measure_matrix
from gramian.weights.formats import inspect_file
from gramian.weights.tensors import StoredMatrix
from workers import embedding

CPU = torch.device("cpu")


@pytest.fixture
def matrix(tmp_path: Path) -> StoredMatrix:
    path = tmp_path / "matrix.npy"
    np.save(path, np.random.default_rng(0).standard_normal((6000, 512), dtype=np.float32))
    header = inspect_file(path, filename=path.name)
    return header.matrix(header.tensors[0], path)


def measured(matrix: StoredMatrix, monkeypatch: pytest.MonkeyPatch, *, failures: int) -> tuple[MatrixGeometry, list]:
    """Measure while the first attempts run out of memory; also the rows of each attempt's first block."""
    attempts: list[int] = []

    def measure(blocks, **options) -> MatrixGeometry:
        attempts.append(len(next(iter(blocks))))
        if len(attempts) <= failures:
            raise torch.OutOfMemoryError("planted")
        return measure_matrix(blocks, **options)

    monkeypatch.setattr(embedding, "measure_matrix", measure)
    return embedding.measure_within_memory(matrix, CPU, lambda stage, fraction: None), attempts


def test_once_more_with_half_the_block_and_the_same_numbers(matrix, monkeypatch) -> None:
    undisturbed, (rows,) = measured(matrix, monkeypatch, failures=0)
    retried, attempts = measured(matrix, monkeypatch, failures=1)
    assert attempts == [rows, rows // 2]
    assert retried.moments.epsilon == pytest.approx(
        undisturbed.moments.epsilon, rel=1e-6
    )  # what float32 products promise


def test_not_a_third_time(matrix, monkeypatch) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        measured(matrix, monkeypatch, failures=2)
