"""A matrix in parts gives the numbers of the whole, whatever lies at the borders, and leaves no thread behind."""

import threading
import time
from dataclasses import asdict

import numpy as np
import pytest
import torch

from gramian.errors import GeometryError, TooFewRows
from gramian.geometry.measurement import MatrixGeometry, measure_matrix
from gramian.geometry.parts import RowParts, part_ranges, side_by_side
from gramian.geometry.rows import row_blocks
from gramian.geometry.similarity import cosine_moments
from tests.geometry.matrices import anisotropic, clustered, isotropic, nearly_parallel

DIM = 6
RELATIVE = {torch.float64: 1e-12, torch.float32: 1e-5}  # float32 where m₂/σ² magnifies its rounding up to 30 times


def split(W: np.ndarray, *borders: int, rows: int = 16) -> RowParts:
    return RowParts([row_blocks(part, rows=rows) for part in np.split(W, borders)])


def with_unusable_rows_at_borders() -> np.ndarray:
    W = anisotropic(90, DIM)
    W[[0, 29, 60]] = 0
    W[[30, 59, 89]] = np.nan
    return W


def with_extreme_scales() -> np.ndarray:
    W = anisotropic(90, DIM)
    W[:30] *= 1e-30
    W[60:] *= 1e30
    return W


def with_nothing_usable_in_the_middle() -> np.ndarray:
    W = anisotropic(90, DIM)
    W[30:60] = 0
    return W


MATRICES = {
    "plain": lambda: anisotropic(90, DIM),
    "clustered": lambda: clustered(90, DIM),
    "unusable rows at the borders": with_unusable_rows_at_borders,
    "extreme scales, ascending": with_extreme_scales,
    "extreme scales, descending": with_extreme_scales()[::-1].copy,
    "nothing usable in one part": with_nothing_usable_in_the_middle,
    "nearly parallel": lambda: nearly_parallel(90, DIM),
}


def assert_same(found: MatrixGeometry, expected: MatrixGeometry, *, rel: float) -> None:
    assert asdict(found.moments) == pytest.approx(asdict(expected.moments), rel=rel)
    assert asdict(found.standard_errors) == pytest.approx(asdict(expected.standard_errors), rel=rel)
    assert asdict(found.norms) == pytest.approx(asdict(expected.norms), rel=rel)
    assert found.feature_dimensionality == pytest.approx(expected.feature_dimensionality, rel=rel)
    assert found.effective_rank == pytest.approx(expected.effective_rank, rel=rel)
    for field in ("rows", "used", "zero", "nonfinite", "zero_rows", "nonfinite_rows"):
        np.testing.assert_array_equal(getattr(found.census, field), getattr(expected.census, field))
    np.testing.assert_array_equal(found.per_row.row, expected.per_row.row)
    np.testing.assert_allclose(found.per_row.norm, expected.per_row.norm, rtol=rel)
    for field in ("mean_cosine", "mean_square_cosine", "feature_dimensionality"):
        np.testing.assert_allclose(getattr(found.per_row, field), getattr(expected.per_row, field), rtol=rel, atol=rel)
    assert [r.row for r in found.most_overlapping] == [r.row for r in expected.most_overlapping]
    assert [r.row for r in found.least_overlapping] == [r.row for r in expected.least_overlapping]


@pytest.mark.parametrize("products", RELATIVE)
@pytest.mark.parametrize("borders", [(45,), (30, 60), (1, 2, 89), (30, 30, 60)], ids=str)
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_parts_give_the_numbers_of_the_whole(matrix, borders, products):
    W = matrix()
    whole = measure_matrix(row_blocks(W), rows=90, dim=DIM, products=products)
    parts = measure_matrix(split(W, *borders), rows=90, dim=DIM, products=products)
    assert_same(parts, whole, rel=RELATIVE[products])


def test_a_matrix_of_vocabulary_size_in_two_and_three_parts_agrees_to_seven_digits():
    W = (isotropic(20_000, 96) + 0.3).astype(np.float32)
    whole = measure_matrix(row_blocks(W), rows=20_000, dim=96, products=torch.float32).moments
    for borders in ((9_001,), (7_000, 13_333)):
        parts = measure_matrix(split(W, *borders, rows=4096), rows=20_000, dim=96, products=torch.float32).moments
        assert asdict(parts) == pytest.approx(asdict(whole), rel=1e-7)


def test_the_same_parts_give_the_same_bits_every_time():
    W = clustered(3000, 24)
    found = [measure_matrix(split(W, 700, 2100), rows=3000, dim=24, products=torch.float32) for _ in range(5)]
    assert len({repr((f.moments, f.standard_errors, f.feature_dimensionality)) for f in found}) == 1


def test_parts_are_also_the_blocks_of_the_whole():
    W = anisotropic(90, DIM)
    assert torch.equal(torch.cat([torch.as_tensor(b) for b in split(W, 20, 50)]), torch.as_tensor(W))
    assert cosine_moments(split(W, 20, 50), dim=DIM).pairs == 90 * 89 // 2
    assert cosine_moments(split(nearly_parallel(90, DIM), 20, 50), dim=DIM).mean == pytest.approx(0.998, abs=0.002)


@pytest.mark.parametrize(("matrix", "gram_passes"), [(anisotropic, 1), (nearly_parallel, 2)])
def test_progress_rises_over_the_rows_of_all_parts_to_one(matrix, gram_passes):
    told, threads = [], set()

    def progress(stage: str, fraction: float) -> None:
        told.append((stage, fraction))
        threads.add(threading.current_thread())

    measure_matrix(split(matrix(100, 8), 25, 50, rows=25), rows=100, dim=8, products=torch.float32, progress=progress)
    quarters = [0.25, 0.5, 0.75, 1.0]
    assert told == [("gram", f) for f in quarters] * gram_passes + [("rows", f) for f in quarters]
    assert threads == {threading.current_thread()}


class Endless:
    """Blocks that never end, as long as anybody reads them."""

    def __iter__(self):
        while True:
            yield torch.eye(3)


class Failing:
    def __iter__(self):
        yield torch.eye(3)
        raise OSError("the disk is gone")


def threads_now() -> int:
    return sum(thread.is_alive() for thread in threading.enumerate())


def test_an_error_in_one_part_ends_the_others_and_is_raised():
    before, cores = threads_now(), torch.get_num_threads()
    with pytest.raises(OSError, match="the disk is gone"):
        measure_matrix(RowParts([Endless(), Failing(), Endless()]), rows=9, dim=3)
    assert (threads_now(), torch.get_num_threads()) == (before, cores)


def test_an_error_of_who_is_told_ends_all_parts():
    before, cores = threads_now(), torch.get_num_threads()

    def lost(_stage: str, _fraction: float) -> None:
        raise TimeoutError("no longer ours")

    with pytest.raises(TimeoutError, match="no longer ours"):
        measure_matrix(RowParts([Endless(), Endless()]), rows=9, dim=3, progress=lost)
    assert (threads_now(), torch.get_num_threads()) == (before, cores)


def test_tasks_run_at_the_same_time_each_with_one_thread_of_torch():
    meeting = threading.Barrier(3, timeout=30)

    def work(_tell: object) -> int:
        meeting.wait()  # breaks unless all three parts are at work
        return torch.get_num_threads()

    assert side_by_side([work] * 3, tell=lambda _: None) == [1, 1, 1]


def test_results_come_in_the_order_of_the_tasks():
    def first(_tell: object) -> str:
        time.sleep(0.02)
        return "first"

    assert side_by_side([first, lambda _tell: "second"], tell=lambda _: None) == ["first", "second"]


@pytest.mark.parametrize("parts", [[], [[]], [[], []]], ids=len)
def test_parts_without_a_row_are_too_few_rows(parts):
    with pytest.raises(TooFewRows):
        measure_matrix(RowParts(parts), rows=0, dim=3)


def test_a_part_that_can_be_read_only_once_is_refused():
    with pytest.raises(GeometryError, match="only once"):
        measure_matrix(RowParts([[torch.eye(3)], iter([torch.eye(3)])]), rows=6, dim=3)


def test_ranges_cover_the_rows_in_equal_parts_within_memory(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    for rows, dim, parts in [
        (1, 1, 1),
        (8191, 384, 1),
        (30_522, 384, 7),  # of at least 4096 rows
        (128_256, 384, 8),
        (128_256, 1024, 4),  # 16 MiB of sums each
        (128_256, 1448, 2),
        (128_256, 1449, 1),
    ]:
        ranges = part_ranges(rows, dim)
        assert [r for start, stop in ranges for r in (start, stop)][1:-1:2] == [start for start, _ in ranges[1:]]
        assert (len(ranges), ranges[0][0], ranges[-1][1]) == (parts, 0, rows)
        sizes = {stop - start for start, stop in ranges}
        assert max(sizes) - min(sizes) <= 1


def test_ranges_are_no_more_than_the_threads_torch_may_use(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert part_ranges(128_256, 384) == [(0, 42_752), (42_752, 85_504), (85_504, 128_256)]
