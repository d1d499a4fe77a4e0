"""Gram matrices and quadratic forms at little more than half the price, because both are symmetric.

Only the upper triangle of a d×d matrix is worked on, in column panels: panel [s, e) holds the rows above its
lower edge, `M[:e, s:e]`. With P panels that takes (P + 1) / 2P of the multiplications of the full product.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

SYRK_DIM = 1448  # up to here a product of 8 MB stays beside the caches; above, panels need less memory
PANELS = 4  # 62 % of the multiplications; more panels become too narrow for the kernels to run at full speed


def panels(dim: int) -> Iterator[tuple[int, int]]:
    """Column ranges [s, e) that cover a matrix of `dim` columns.

    Examples
    --------
    >>> list(panels(10))
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    width = -(-dim // PANELS)
    return ((start, min(start + width, dim)) for start in range(0, dim, width))


class GramSum:
    """The running sum Σ_i ω_i v_i v_iᵀ: each chunk multiplied in its own precision, the sum kept in float64."""

    def __init__(self, dim: int) -> None:
        self._upper = torch.zeros(dim, dim, dtype=torch.float64)
        self._weighted = torch.empty(0, dim)

    def add(self, V: Tensor, weights: Tensor | None = None) -> None:
        """Add the rows of V, (m, d), each with its weight ω_i ≥ 0, (m,), or 1."""
        self._upper = self._upper.to(V.device)  # the first chunk decides where the sum lives
        if weights is not None:
            V = self._scaled(V, weights.sqrt())  # (m, d)
        if V.device.type == "cpu" and V.shape[1] <= SYRK_DIM and torch.get_num_threads() == 1:
            # NumPy hands AᵀA to its BLAS's syrk, which torch lacks. Beside torch's own threads, BLAS's would stall.
            rows = V.numpy()
            self._upper += torch.from_numpy(rows.T @ rows)
            return
        for s, e in panels(V.shape[1]):
            self._upper[:e, s:e] += V[:, :e].T @ V[:, s:e]

    def merge(self, other: "GramSum") -> None:
        """Add what another sum holds."""
        self._upper += other._upper.to(self._upper.device)

    def scale(self, factor: float) -> None:
        """Multiply what was summed so far."""
        self._upper *= factor

    def matrix(self) -> Tensor:
        """The sum as a full symmetric matrix, (d, d) float64; it shares this object's memory."""
        for s, e in panels(len(self._upper)):
            self._upper[e:, s:e] = self._upper[s:e, e:].T
        return self._upper

    def _scaled(self, V: Tensor, weights: Tensor) -> Tensor:
        # One buffer for all chunks, as for the unit rows.
        m, out = len(V), self._weighted
        if len(out) < m or out.dtype != V.dtype or out.device != V.device:
            out = self._weighted = torch.empty_like(V)
        return torch.mul(V, weights[:, None], out=out[:m])


class QuadraticForm:
    """v ↦ vᵀ H v for many vectors at once.

    Above its diagonal blocks H counts twice and below not at all: T_ab = 2 H_ab for panels a < b, T_bb = H_bb gives
    the same form as H.

    Parameters
    ----------
    H : (d, d) tensor
        Symmetric.
    dtype : torch.dtype
        Precision of the products, and of the vectors given.

    Examples
    --------
    >>> QuadraticForm(torch.tensor([[2.0, 1.0], [1.0, 3.0]]), torch.float64)(torch.tensor([[1.0, 2.0]]).double())
    tensor([18.], dtype=torch.float64)
    """

    def __init__(self, H: Tensor, dtype: torch.dtype) -> None:
        self._panels = []
        for s, e in panels(len(H)):
            T = H[:e, s:e].to(dtype, copy=True)
            T[:s] *= 2
            self._panels.append((s, e, T))

    def __call__(self, V: Tensor) -> Tensor:
        """Values for the rows of V, (m, d): (m,) float64."""
        total = torch.zeros(len(V), dtype=torch.float64, device=V.device)
        for s, e, T in self._panels:
            total += (V[:, :e] @ T).mul_(V[:, s:e]).sum(dim=1)
        return total
