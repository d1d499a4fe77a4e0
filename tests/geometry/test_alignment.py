"""A token's two vectors compared."""

import numpy as np
import pytest
import torch

from gramian.errors import GeometryError
from gramian.geometry.alignment import alignment
from gramian.geometry.rows import row_blocks
from tests.geometry.oracles import unit


def pair(n: int = 1000, d: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    one = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return one, one + torch.randn(n, d, generator=generator, dtype=torch.float64)


def test_it_is_the_cosine_of_each_row_with_its_counterpart():
    one, other = pair()
    expected = (unit(one.numpy()) * unit(other.numpy())).sum(axis=1)
    found = alignment(row_blocks(one, rows=300), row_blocks(other, rows=300), dim=24)
    assert found.tokens == 1000
    assert (found.mean, found.std) == pytest.approx((expected.mean(), expected.std()))
    levels, values = zip(*found.quantiles, strict=True)
    assert values == pytest.approx(np.quantile(expected, levels, method="inverted_cdf"))


def test_blocks_and_positive_scales_change_nothing():
    one, other = pair()
    scales = torch.logspace(-30, 30, 1000, dtype=torch.float64)[:, None]
    plain = alignment([one], [other], dim=24)
    cut = alignment(row_blocks(one * scales, rows=7), row_blocks(other, rows=7), dim=24)
    assert (cut.mean, cut.std) == pytest.approx((plain.mean, plain.std), rel=1e-12)


def test_rows_without_a_direction_in_either_are_left_out():
    one, other = pair(10)
    one[2], other[7, 1] = 0, torch.inf
    kept = [0, 1, 3, 4, 5, 6, 8, 9]
    found, expected = alignment([one], [other], dim=24), alignment([one[kept]], [other[kept]], dim=24)
    assert found.tokens == expected.tokens == 8
    assert (found.mean, found.std) == pytest.approx((expected.mean, expected.std), rel=1e-12)
    with pytest.raises(GeometryError, match="both"):
        alignment([torch.zeros(3, 2)], [torch.ones(3, 2)], dim=2)
