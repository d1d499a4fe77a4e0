"""The blocked gradient against automatic differentiation of the formula, in float64 over all pairs."""

import pytest
import torch

from gramian.geometry.packing_gradient import HALF_POWERS, half_power, smoothed_coherence


def unit_rows(k: int, d: int, seed: int = 0) -> torch.Tensor:
    U = torch.randn(k, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return U / U.norm(dim=1, keepdim=True)


def log_norm(U: torch.Tensor, q: int) -> torch.Tensor:
    upper = torch.triu_indices(len(U), len(U), offset=1)
    return torch.linalg.vector_norm((U @ U.T)[upper[0], upper[1]], ord=q).log()


@pytest.mark.parametrize("p", [1, 2, 3, 8, 12, 64, 96])
@pytest.mark.parametrize(("k", "d", "block_rows"), [(2, 2, 5), (7, 3, 2), (20, 6, 7), (20, 6, 20), (20, 6, 100)])
def test_value_and_gradient_are_those_of_the_q_norm_over_all_pairs(k, d, block_rows, p):
    U = unit_rows(k, d).requires_grad_()
    expected = log_norm(U, 2 * p + 2)
    (gradient,) = torch.autograd.grad(expected, U)
    found = smoothed_coherence(U.detach(), p, block_rows=block_rows)
    assert float(found.log_norm) == pytest.approx(expected.item(), rel=1e-12)
    assert torch.allclose(found.gradient, gradient, rtol=1e-9, atol=1e-12)


def test_the_coherence_is_the_largest_cosine_off_the_diagonal():
    U = unit_rows(50, 9)
    naive = ((U @ U.T).abs() - torch.eye(50)).max()
    assert float(smoothed_coherence(U, 4, block_rows=16).coherence) == pytest.approx(float(naive), rel=1e-14)


def test_float32_at_the_highest_exponent_neither_overflows_nor_vanishes():
    U = unit_rows(300, 40).to(torch.float32)
    found = smoothed_coherence(U, HALF_POWERS[-1], block_rows=64)
    assert float(found.log_norm) == pytest.approx(float(found.coherence.log()), abs=1e-4)
    assert torch.isfinite(found.gradient).all()
    assert float(found.gradient.norm()) > 1


def test_the_gradient_turns_with_the_rows():
    U, Q = unit_rows(30, 8), torch.linalg.qr(unit_rows(8, 8, seed=1))[0]
    plain = smoothed_coherence(U, 6, block_rows=11).gradient
    turned = smoothed_coherence(U @ Q, 6, block_rows=11).gradient
    assert torch.allclose(turned, plain @ Q, atol=1e-12)


def test_a_row_and_its_opposite_pull_the_same():
    U = unit_rows(30, 8)
    signs = torch.ones(30, 1, dtype=torch.float64)
    signs[::3] = -1
    plain = smoothed_coherence(U, 6, block_rows=11).gradient
    assert torch.allclose(smoothed_coherence(signs * U, 6, block_rows=11).gradient, signs * plain, atol=1e-12)


@pytest.mark.parametrize(("exponent", "p"), [(4.0, 1), (5.9, 1), (6.0, 2), (8.0, 3), (100.0, 48), (1026.0, 512)])
def test_exponents_are_met_from_below(exponent, p):
    assert half_power(exponent) == p
