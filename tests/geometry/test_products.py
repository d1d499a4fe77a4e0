"""Half the products give the whole of a symmetric matrix."""

import pytest
import torch

from gramian.geometry.products import GramSum, QuadraticForm, panels

WIDTHS = [1, 2, 3, 4, 5, 7, 16, 33]


@pytest.mark.parametrize("d", WIDTHS)
def test_panels_cover_every_column_once(d):
    assert [i for s, e in panels(d) for i in range(s, e)] == list(range(d))


@pytest.mark.parametrize("d", WIDTHS)
def test_the_running_gram_matrix_is_the_weighted_sum_of_outer_products(d):
    V = torch.randn(20, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d))
    weights = torch.arange(20.0, dtype=torch.float64)
    total = GramSum(d)
    total.add(V[:5], weights[:5])
    total.scale(0.5)
    total.add(V[5:], weights[5:] / 2)
    expected = torch.einsum("i,ij,ik->jk", weights, V, V) / 2
    torch.testing.assert_close(total.matrix(), expected)


@pytest.mark.parametrize("d", WIDTHS)
def test_the_quadratic_form_is_that_of_the_matrix(d):
    generator = torch.Generator().manual_seed(d)
    H, V = (torch.randn(n, d, dtype=torch.float64, generator=generator) for n in (d, 20))
    H = H + H.T
    torch.testing.assert_close(QuadraticForm(H, torch.float64)(V), torch.einsum("ij,jk,ik->i", V, H, V))
