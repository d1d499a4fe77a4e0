"""Rows without a direction are left out, counted and listed; a caller's memory is only read."""

import numpy as np
import pytest
import torch

from gramian.errors import GeometryError
from gramian.geometry.measurement import measure_matrix
from gramian.geometry.rows import row_blocks, unit_rows
from tests.geometry.matrices import anisotropic
from tests.geometry.oracles import all_pairs


def with_bad_rows(dtype=np.float64) -> tuple[np.ndarray, np.ndarray]:
    good = anisotropic(30, 6).astype(dtype)
    W = np.insert(good, [0, 4, 11, 30], 0, axis=0)  # zeros at 0, 5, 13, 33
    W[13, 2] = np.nan
    W[33, 0] = -np.inf
    W[33, 1] = np.nan
    return W, good


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_zero_and_nonfinite_rows_are_left_out_counted_and_listed(rows, dtype):
    W, good = with_bad_rows(dtype)
    found = measure_matrix(row_blocks(W, rows=rows), rows=34, dim=6)
    census = found.census
    assert (census.rows, census.used, census.zero, census.nonfinite) == (34, 30, 2, 2)
    assert census.zero_rows.tolist() == [0, 5]
    assert census.nonfinite_rows.tolist() == [13, 33]
    assert found.moments.epsilon == pytest.approx(all_pairs(good).epsilon, rel=1e-6)
    assert found.per_row.row.tolist() == sorted(set(range(34)) - {0, 5, 13, 33})


def test_zero_rows_in_single_precision_products_change_nothing():
    W, good = with_bad_rows()
    found = measure_matrix([W], rows=34, dim=6, products=torch.float32)
    assert found.moments.epsilon == pytest.approx(all_pairs(good).epsilon, rel=1e-5)


def test_a_norm_beyond_float64_counts_as_nonfinite():
    W = np.array([[1.7e308, 1.7e308], [1.0, 0.0], [0.0, 1.0]])
    census = measure_matrix([W], rows=3, dim=2).census
    assert (census.used, census.nonfinite_rows.tolist()) == (2, [0])


def test_the_smallest_numbers_still_have_a_direction():
    [chunk] = unit_rows(
        [torch.tensor([[5e-324, 0.0], [0.0, -5e-324]], dtype=torch.float64)], dim=2, dtype=torch.float64
    )
    assert chunk.unit.tolist() == [[1, 0], [0, -1]]


def test_unit_rows_have_length_one_in_single_precision():
    W = torch.from_numpy(anisotropic(500, 300)).float()
    [chunk] = unit_rows([W], dim=300, dtype=torch.float32)
    exact = W.double() / W.double().norm(dim=1, keepdim=True)
    assert float((chunk.unit.double() - exact).abs().max()) < 1e-7
    assert float((chunk.norms / W.double().norm(dim=1) - 1).abs().max()) < 3e-7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_callers_tensor_is_never_written(dtype):
    W = torch.from_numpy(anisotropic(50, 6)).to(dtype)
    before = W.clone()
    measure_matrix([W[:20], W[20:]], rows=50, dim=6)
    assert torch.equal(W, before)


def test_read_only_memory_maps_are_read_without_a_warning(tmp_path):
    W = anisotropic(50, 6).astype(np.float32)
    np.save(tmp_path / "W.npy", W)
    mapped = np.load(tmp_path / "W.npy", mmap_mode="r")
    found = measure_matrix(row_blocks(mapped, rows=16), rows=50, dim=6)
    assert found.moments == measure_matrix(row_blocks(W, rows=16), rows=50, dim=6).moments


@pytest.mark.parametrize("view", [lambda W: W.astype(">f4"), lambda W: W[::-1][::-1], np.asfortranarray])
def test_any_memory_layout_is_read(view):
    W = anisotropic(50, 6).astype(np.float32)
    found = measure_matrix([view(W)], rows=50, dim=6)
    assert found.moments == measure_matrix([W], rows=50, dim=6).moments


def test_weights_that_want_gradients_are_read_all_the_same():
    W = torch.nn.Embedding(20, 4).weight
    assert measure_matrix([W], rows=20, dim=4).census.used == 20


def test_blocks_can_be_read_again():
    blocks = row_blocks(torch.arange(10.0)[:, None], rows=3)
    assert [len(b) for b in blocks] == [len(b) for b in blocks] == [3, 3, 3, 1]


def test_a_block_holds_at_least_one_row():
    with pytest.raises(GeometryError, match="at least one row"):
        row_blocks(torch.ones(2, 2), rows=0)
