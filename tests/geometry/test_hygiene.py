"""Rows that are no token's trained vector, planted and found."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gramian.errors import GeometryError
from gramian.geometry.hygiene import WithoutRows, duplicate_rows, rows_like, short_rows
from gramian.geometry.measurement import measure_matrix
from gramian.geometry.rows import row_blocks

SMALL = st.sampled_from([0.0, -0.0, 1.0, -1.0, np.nan, np.inf])


def drawn(rows: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, dim))


def naive_duplicates(W: np.ndarray) -> list[int]:
    usable = [i for i, row in enumerate(W) if np.isfinite(row).all() and row.any()]
    return [i for place, i in enumerate(usable) if any((W[i] == W[j]).all() for j in usable[:place])]


@given(arrays(np.float32, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=SMALL), st.integers(1, 13))
def test_duplicates_are_those_that_comparing_every_two_rows_finds(W: np.ndarray, rows: int) -> None:
    assert duplicate_rows(row_blocks(W, rows=rows)).tolist() == naive_duplicates(W)


def test_rows_that_are_not_looked_at_are_neither_duplicates_nor_originals() -> None:
    W = np.array([[1.0, 2], [1, 2], [1, 2], [3, 4], [3, 4]])
    assert duplicate_rows(row_blocks(W, rows=2), without=np.array([0, 3])).tolist() == [2]


@pytest.mark.parametrize("rows", [1, 7, 64, 1000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_matrix_without_rows_measures_like_the_others_alone(rows: int, dtype: torch.dtype) -> None:
    W = torch.from_numpy(drawn(300, 24) + 0.3).to(dtype)
    left_out = np.array([0, 5, 6, 7, 150, 299])
    found = measure_matrix(WithoutRows(row_blocks(W, rows=rows), left_out), rows=300, dim=24)
    alone = torch.from_numpy(np.delete(W.double().numpy(), left_out, axis=0))
    expected = measure_matrix(row_blocks(alone), rows=294, dim=24)
    assert found.moments.epsilon == pytest.approx(expected.moments.epsilon, rel=1e-6)
    assert found.norms.median == pytest.approx(expected.norms.median, rel=1e-6)
    assert found.census.zero_rows.tolist() == left_out.tolist()
    assert not set(left_out) & {row.row for row in found.most_overlapping + found.least_overlapping}


def test_leaving_rows_out_changes_no_block_of_the_callers() -> None:
    W = drawn(4, 3)
    before = W.copy()
    list(WithoutRows(row_blocks(W, rows=2), np.array([1])))
    assert (before == W).all()


def test_short_rows_are_those_below_the_highest_jump() -> None:
    norms = np.exp(np.random.default_rng(1).normal(0, 0.2, 2000))
    assert short_rows(norms).tolist() == []
    planted = np.array([3, 500, 1999])
    norms[planted] = [0.01, 0.02, 0.0]  # the row of zeros is left out anyway
    assert short_rows(norms).tolist() == [3, 500]
    norms[10] = 1e-6  # one far below the others does not hide them
    assert short_rows(norms).tolist() == [3, 10, 500]


def test_scale_does_not_matter_to_norms() -> None:
    norms = np.concatenate([np.full(50, 1e-3), np.linspace(0.9, 1.1, 500)])
    assert short_rows(norms).tolist() == short_rows(1e20 * norms).tolist() == list(range(50))


def test_rows_that_point_like_known_unused_ones_are_found() -> None:
    W = drawn(1000, 64)
    common = drawn(1, 64, seed=5)
    unused = np.array([10, 20, 30, 40, 990])
    W[unused] = common + 0.02 * drawn(5, 64, seed=6)
    known = unused[:4]
    assert rows_like(row_blocks(W, rows=100), known, dim=64).tolist() == unused.tolist()
    Q = np.linalg.qr(drawn(64, 64, seed=7))[0]
    assert rows_like(row_blocks(W @ Q, rows=33), known, dim=64).tolist() == unused.tolist()


def test_references_that_do_not_stand_apart_say_so() -> None:
    W = drawn(1000, 8)
    with pytest.raises(GeometryError, match="do not stand apart"):
        rows_like(row_blocks(W), np.arange(50), dim=8)
    with pytest.raises(GeometryError, match="2 rows are known to be unused, at least 3"):
        rows_like(row_blocks(W), np.array([1, 2]), dim=8)
