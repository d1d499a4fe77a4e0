"""Packings against known optima, naive all pairs and the published descent."""

import dataclasses
import subprocess
import sys
from itertools import pairwise

import pytest
import torch

from gramian.errors import GeometryError
from gramian.geometry.baselines import welch_bound
from gramian.geometry.packing import coherence, optimize_packing, random_packing
from tests.geometry import oracles


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # for matrices this small, threads that wait for each other cost far more than they save
    yield
    torch.set_num_threads(before)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def naive_coherence(vectors: torch.Tensor) -> float:
    return float(abs(oracles.cosines(vectors.numpy())).max())


# -- descent --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "d", "lines"),
    [(6, 3, "icosahedron"), (10, 5, "Petersen graph"), (16, 6, "Clebsch graph"), (28, 7, "bitangents")],
)
def test_equiangular_lines_are_found_to_a_ten_thousandth_of_the_welch_bound(k, d, lines):
    starts = (optimize_packing(k, d, steps=400, generator=seeded(seed)) for seed in range(4))
    found = next((packing for packing in starts if packing.ratio_to_welch < 1 + 1e-4), None)
    assert found is not None
    assert naive_coherence(found.vectors) == pytest.approx(welch_bound(k, d), rel=1e-4)


def test_descent_leaves_the_published_constant_of_the_ratio_form_behind():
    found = optimize_packing(400, 64, steps=150, generator=seeded())
    published = (1.2934 * torch.log(torch.tensor(400 / 64)) / 64) ** 0.5  # what the fit has for this cell
    assert found.epsilon < 0.85 * float(published)


def test_more_steps_find_tighter_packings():
    few, many = (optimize_packing(200, 20, steps=steps, generator=seeded()).epsilon for steps in (30, 300))
    assert many < 0.97 * few


@pytest.mark.parametrize(("k", "d", "block_rows"), [(40, 7, 16), (65, 12, 64), (33, 32, 1)])
def test_epsilon_is_that_of_all_pairs_of_the_vectors(k, d, block_rows):
    found = optimize_packing(k, d, steps=60, generator=seeded(), block_rows=block_rows)
    assert found.vectors.shape == (k, d)
    assert found.vectors.dtype == torch.float32
    assert found.epsilon == pytest.approx(naive_coherence(found.vectors), rel=1e-12)
    assert torch.allclose(found.vectors.norm(dim=1), torch.ones(k), atol=1e-6)
    assert found.epsilon >= found.welch_bound == welch_bound(k, d)


def test_the_same_seed_gives_the_same_packing():
    one, other = (optimize_packing(40, 9, steps=50, generator=seeded(3)) for _ in range(2))
    assert torch.equal(one.vectors, other.vectors)
    assert one.history == other.history
    assert one.seed == 3
    assert optimize_packing(40, 9, steps=50, generator=seeded(4)).epsilon != one.epsilon


def test_a_turned_start_gives_the_turned_packing():
    start = torch.randn(30, 6, generator=seeded())
    turn = torch.linalg.qr(torch.randn(6, 6, generator=seeded(1)))[0]
    plain, turned = (
        optimize_packing(30, 6, steps=25, generator=seeded(), start=rows) for rows in (start, start @ turn)
    )
    assert torch.allclose(turned.vectors, plain.vectors @ turn, atol=1e-3)
    assert turned.epsilon == pytest.approx(plain.epsilon, rel=1e-3)


def test_a_start_at_an_optimum_is_kept():
    simplex = torch.eye(8, dtype=torch.float64) - 1 / 8  # eight rows, pairwise −1/7, in a hyperplane
    basis = torch.linalg.svd(simplex)[2][:7]
    found = optimize_packing(8, 7, steps=100, generator=seeded(), start=simplex @ basis.T, exponents=(200, 1000))
    assert found.steps == 0
    assert found.epsilon == pytest.approx(1 / 7, rel=1e-6)


@pytest.mark.parametrize(("k", "d"), [(2, 2), (5, 5), (20, 64)])
def test_up_to_d_vectors_are_orthonormal_at_once(k, d):
    found = optimize_packing(k, d, steps=1000, generator=seeded())
    assert found.epsilon < 1e-6
    assert (found.steps, found.welch_bound, found.ratio_to_welch) == (0, 0.0, None)


def test_lines_on_one_axis_cannot_be_parted():
    assert optimize_packing(3, 1, steps=5, generator=seeded()).epsilon == 1


def test_progress_is_told_after_every_step_and_may_abort():
    told = []

    def report(progress):
        told.append(progress)
        if progress.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimize_packing(50, 10, steps=100, generator=seeded(), report=report)
    assert [progress.step for progress in told] == list(range(1, 8))
    assert told[-1].epsilon < told[0].epsilon
    assert all(later.seconds >= earlier.seconds for earlier, later in pairwise(told))


def test_history_leads_from_the_start_to_the_end():
    found = optimize_packing(60, 10, steps=300, generator=seeded())
    steps = [step for step, _ in found.history]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, 300)
    assert len(steps) <= 101
    assert found.history[0][1] > found.history[-1][1] >= found.epsilon * (1 - 1e-6)


# -- random draws ---------------------------------------------------------------------------------------------


def test_a_random_packing_is_the_best_of_its_draws():
    draws = [random_packing(50, 8, draws=1, generator=seeded(seed)).epsilon for seed in range(3)]
    generator = seeded(0)
    first = random_packing(50, 8, draws=1, generator=generator)
    second = random_packing(50, 8, draws=1, generator=generator)
    both = random_packing(50, 8, draws=2, generator=seeded(0), block_rows=7)
    assert both.epsilon == pytest.approx(min(first.epsilon, second.epsilon), rel=1e-6)
    assert both.epsilon == pytest.approx(naive_coherence(both.vectors), rel=1e-12)
    assert len(set(draws)) == 3


def test_descent_beats_a_hundred_random_draws():
    drawn = random_packing(100, 16, draws=100, generator=seeded())
    assert optimize_packing(100, 16, steps=50, generator=seeded()).epsilon < 0.7 * drawn.epsilon


# -- coherence, and what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("block_rows", [1, 7, 30, 100])
def test_coherence_is_found_whatever_the_blocks_and_the_lengths(block_rows):
    W = torch.randn(30, 5, generator=seeded()) * torch.logspace(-3, 3, 30)[:, None]
    assert coherence(W, block_rows=block_rows) == pytest.approx(naive_coherence(W), rel=1e-12)


def test_a_packing_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        optimize_packing(5, 3, steps=1, generator=seeded()).epsilon = 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: optimize_packing(1, 3, steps=1, generator=seeded()),
        lambda: optimize_packing(5, 0, steps=1, generator=seeded()),
        lambda: optimize_packing(5, 3, steps=0, generator=seeded()),
        lambda: optimize_packing(5, 3, steps=1, generator=seeded(), exponents=(2, 8)),
        lambda: optimize_packing(5, 3, steps=1, generator=seeded(), exponents=(9, 8)),
        lambda: optimize_packing(5, 3, steps=1, generator=seeded(), start=torch.ones(5, 4)),
        lambda: random_packing(5, 3, draws=0, generator=seeded()),
        lambda: random_packing(1, 3, draws=1, generator=seeded()),
    ],
)
def test_impossible_packings_are_refused(call):
    with pytest.raises(GeometryError):
        call()


def test_eight_thousand_vectors_in_256_dimensions_fit_into_600_megabytes():
    program = """
import re, pathlib, torch
from gramian.geometry.packing import optimize_packing
torch.set_num_threads(1)
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
loaded = peak()  # libraries, of which a CUDA build of torch has many
optimize_packing(8000, 256, steps=2, generator=torch.Generator().manual_seed(0))
print(peak() - loaded)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 8000 * 256 * 4 < int(done.stdout) < 300e6  # a CPU build's libraries and this: half of the 600 MB


def test_a_search_that_has_found_what_it_can_find_ends_early_with_its_landing() -> None:
    beside_the_optimum = optimize_packing(
        16, 6, steps=1000, generator=seeded(1)
    )  # of which four starts in six end here
    assert beside_the_optimum.steps < 950
    assert beside_the_optimum.ratio_to_welch == pytest.approx(1.114, abs=2e-3)
    still_falling = optimize_packing(500, 32, steps=200, generator=seeded())
    assert still_falling.steps == 200
