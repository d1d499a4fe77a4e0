"""Cosines over pairs, all of them or drawn, against every pair formed in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.errors import GeometryError
from gramian.geometry.measurement import measure_matrix
from gramian.geometry.pairs import PairStatistics, exact_pairs, sampled_pairs
from tests.geometry.oracles import unit


def ranges(W):
    return lambda start, stop: [W[start:stop]]


def all_pairs(W: np.ndarray) -> np.ndarray:
    U = unit(W)
    return (U @ U.T)[np.triu_indices(len(U), 1)]


def exact(W, **options) -> PairStatistics:
    return exact_pairs(ranges(W), rows=len(W), dim=W.shape[1], **({"products": torch.float64} | options))


def anisotropic(n: int, d: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64) + 0.4


@pytest.mark.parametrize(
    ("n", "d", "window"), [(2, 1, 1), (97, 5, 10), (700, 17, 256), (1500, 8, 1500), (1500, 8, 701)]
)
def test_every_pair_is_counted_once_in_any_windows(n, d, window):
    W = anisotropic(n, d)
    found = exact(W, window_rows=window, bins=7)
    cosines = all_pairs(W.numpy())
    expected, edges = np.histogram(cosines, bins=7, range=(-1, 1))
    assert found.pairs == len(cosines) == found.counts.sum()
    assert found.counts.tolist() == expected.tolist()
    assert found.edges == pytest.approx(edges)
    assert (found.minimum, found.maximum) == pytest.approx((cosines.min(), cosines.max()))
    assert found.mean_abs == pytest.approx(np.abs(cosines).mean())
    assert found.band is None
    assert found.mean_abs_error is None


def test_quantiles_are_right_within_the_resolution():
    W = anisotropic(900, 24)
    found = exact(W)
    levels, values = zip(*found.quantiles, strict=True)
    expected = np.quantile(all_pairs(W.numpy()), levels, method="inverted_cdf")
    assert np.abs(np.array(values) - expected).max() <= found.resolution


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(2, 60),
    d=st.integers(1, 9),
    bins=st.integers(1, 50),
    window=st.integers(1, 70),
    seed=st.integers(0, 99),
)
def test_windows_change_nothing_whatever_the_sizes(n, d, bins, window, seed):
    W = anisotropic(n, d, seed)
    one, many = exact(W, bins=bins), exact(W, bins=bins, window_rows=window)
    assert one.counts.sum() == n * (n - 1) // 2
    assert many.mean_abs == pytest.approx(one.mean_abs, rel=1e-12)
    assert np.abs(many.counts - one.counts).sum() <= 2  # a cosine on an edge may fall either way by rounding


def test_the_moments_of_all_pairs_are_those_of_the_gram_matrix():
    W = anisotropic(1200, 32)
    found = exact(W, bins=20_000)
    middles = (found.edges[1:] + found.edges[:-1]) / 2
    moments = measure_matrix([W], rows=1200, dim=32).moments
    mean = (found.counts * middles).sum() / found.pairs
    assert mean == pytest.approx(moments.mean, abs=1e-6)
    assert (found.counts * middles**2).sum() / found.pairs == pytest.approx(moments.mean_square, abs=1e-5)


def test_float32_products_agree_with_float64():
    W = anisotropic(800, 64)
    low, high = exact(W.float(), products=torch.float32), exact(W.float(), products=torch.float64)
    assert low.mean_abs == pytest.approx(high.mean_abs, rel=1e-6)
    assert low.maximum == pytest.approx(high.maximum, abs=1e-6)
    assert np.abs(low.counts - high.counts).sum() < 1e-3 * low.pairs


def test_orthonormal_antipodal_and_equal_rows_have_their_known_cosines():
    axes = exact(torch.eye(6, dtype=torch.float64))
    assert (axes.minimum, axes.maximum, axes.mean_abs) == (0, 0, 0)
    both = exact(torch.cat([torch.eye(3), -torch.eye(3)]).double(), bins=2)
    assert (both.minimum, both.maximum) == (-1, 0)
    assert both.mean_abs == pytest.approx(3 / 15)
    same = exact(torch.ones(5, 3, dtype=torch.float64) / 3, bins=4)
    assert same.counts.tolist() == [0, 0, 0, 10]
    assert same.maximum <= 1


def test_zero_and_nonfinite_rows_take_part_in_no_pair():
    W = anisotropic(300, 6)
    W[[3, 200]] = 0
    W[77, 2] = torch.nan
    kept = np.delete(W.numpy(), [3, 77, 200], axis=0)
    found = exact(W, window_rows=64)
    assert found.pairs == len(kept) * (len(kept) - 1) // 2
    assert found.mean_abs == pytest.approx(np.abs(all_pairs(kept)).mean())

    used = np.delete(np.arange(300), [3, 77, 200])
    drawn = sampled_pairs(ranges(W), used_rows=used, dim=6, samples=5000, seed=1, window_rows=64)
    assert drawn.pairs == 5000
    assert np.isfinite(drawn.mean_abs)


def test_a_draw_does_not_depend_on_the_windows_but_on_its_seed():
    W, used = anisotropic(500, 12), np.arange(500)

    def draw(seed: int, window: int) -> PairStatistics:
        return sampled_pairs(
            ranges(W), used_rows=used, dim=12, samples=20_000, seed=seed, window_rows=window, products=torch.float64
        )

    whole, cut, other = draw(3, 500), draw(3, 70), draw(4, 500)
    assert whole.counts.tolist() == cut.counts.tolist()
    assert whole.mean_abs == pytest.approx(cut.mean_abs, rel=1e-12)
    assert whole.counts.tolist() != other.counts.tolist()


def test_the_band_holds_the_distribution_of_all_pairs_as_often_as_it_says():
    W = anisotropic(400, 10)
    truth = np.sort(all_pairs(W.numpy()))
    missed = 0
    for seed in range(100):
        found = sampled_pairs(ranges(W), used_rows=np.arange(400), dim=10, samples=2000, seed=seed)
        ours = np.cumsum(found.counts) / found.pairs
        exactly = np.searchsorted(truth, found.edges[1:], side="left") / len(truth)
        missed += np.abs(ours - exactly).max() > found.band
    assert missed <= 10  # 5 expected at most; 11 or more of 100 have a chance of one in a hundred


def test_a_drawn_mean_lies_within_its_errors():
    W = anisotropic(600, 16)
    truth = np.abs(all_pairs(W.numpy())).mean()
    found = [sampled_pairs(ranges(W), used_rows=np.arange(600), dim=16, samples=4000, seed=seed) for seed in range(40)]
    scores = [(drawn.mean_abs - truth) / drawn.mean_abs_error for drawn in found]
    assert abs(np.mean(scores)) < 0.6
    assert 0.7 < np.std(scores) < 1.4


def test_what_has_no_pairs_is_refused():
    with pytest.raises(GeometryError, match="two"):
        exact(torch.ones(1, 3, dtype=torch.float64))
    with pytest.raises(GeometryError, match="bin"):
        exact(torch.eye(3, dtype=torch.float64), bins=0)
    with pytest.raises(GeometryError, match="two usable"):
        sampled_pairs(ranges(torch.eye(3)), used_rows=np.arange(1), dim=3, samples=10, seed=0)


def test_progress_rises_to_the_whole():
    seen: list[float] = []
    exact(anisotropic(100, 4), window_rows=30, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    seen.clear()
    sampled_pairs(
        ranges(anisotropic(100, 4)), used_rows=np.arange(100), dim=4, samples=500, seed=0, progress=seen.append
    )
    assert seen == sorted(seen)
    assert seen[-1] == 1
