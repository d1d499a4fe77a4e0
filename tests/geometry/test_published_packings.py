"""The transcription against what is known of the published packings from elsewhere."""

import subprocess
import sys

import pytest

from gramian.geometry.baselines import welch_bound
from gramian.geometry.published_packings import OPTIMISED, RANDOM, PackingPoint


def test_there_are_166_optimised_and_256_random_packings_each_named_once():
    for points, count in ((OPTIMISED, 166), (RANDOM, 256)):
        assert len(points) == count
        assert len({(point.vectors, point.dim) for point in points}) == count
        assert {point.vectors for point in points} == set(range(2_000, 32_001, 2_000))


def test_six_optimised_packings_have_no_more_vectors_than_dimensions():
    assert [point[:2] for point in OPTIMISED if point.vectors <= point.dim] == [
        (2000, 2048),
        (2000, 2560),
        (2000, 3072),
        (2000, 3584),
        (2000, 4096),
        (4000, 4096),
    ]


@pytest.mark.parametrize(
    ("dim", "epsilon"),
    [(32, 0.38594), (64, 0.23632), (128, 0.14686), (256, 0.09114), (512, 0.05272), (768, 0.04233), (1024, 0.03581)],
)
def test_epsilon_of_2000_vectors_is_as_published(dim, epsilon):
    (found,) = [point.epsilon for point in OPTIMISED if point[:2] == (2000, dim)]
    assert found == pytest.approx(epsilon, abs=1.1e-5)


def test_single_cells_stand_where_they_belong():
    assert PackingPoint(16_000, 128, pytest.approx(0.2187839)) in OPTIMISED
    assert PackingPoint(32_000, 4096, pytest.approx(0.0249986)) in OPTIMISED
    assert PackingPoint(32_000, 256, 0.3505859375) in RANDOM
    assert PackingPoint(2_000, 4096, 0.07171630859375) in RANDOM


def test_no_packing_is_tighter_than_welch_allows():
    for point in [*OPTIMISED, *RANDOM]:
        assert point.epsilon >= welch_bound(point.vectors, point.dim)


def test_optimising_beats_drawing_at_random():
    optimised = {point[:2]: point.epsilon for point in OPTIMISED}
    for point in RANDOM:
        assert optimised.get(point[:2], 0.0) < point.epsilon


def test_the_points_load_no_numerics():
    program = "import gramian.geometry.published_packings, sys; print({'torch', 'numpy', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
