"""The smoothed largest |cosine| of unit rows and its gradient, without a k×k matrix or automatic differentiation.

For unit rows u_i (k of them, in d dimensions), G_ij = u_i·u_j and M = max |G_ij| over i < j, the q-norm

    ln ‖G‖_q = ln M + (1/q) · ln Σ_{i<j} (|G_ij| / M)^q

lies above ln M and falls to it as q grows. Being a logarithm, its gradient

    ∂/∂u_i = Σ_{j≠i} w_ij u_j / Σ_{a<b} w_ab G_ab,      w_ij = G_ij · |G_ij / M|^{q−2}

does not shrink with the cosines. G is symmetric: a block of rows is multiplied with itself and the rows after it only,
and its weights serve both ends of each pair. That takes 3/4 of the multiplications, and memory O(k·d + block·k).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# q − 2 = 2p, and p is a power of two, at times three: so x^p takes a handful of squarings, a third of the time that
# pow() needs.
HALF_POWERS: tuple[int, ...] = tuple(sorted([1 << j for j in range(14)] + [3 << j for j in range(13)]))

FAINTEST = 1e-24  # of a weight: below, it is kept from becoming denormal, which is slow, and counts for nothing


@dataclass(frozen=True, eq=False)
class SmoothedCoherence:
    """Value and gradient at one set of rows; tensors on the rows' device, so that nothing waits for it.

    Attributes
    ----------
    log_norm : () tensor
        ln ‖G‖_q.
    coherence : () tensor
        M, the largest |cosine|, in the rows' precision.
    gradient : (k, d) tensor
        Of `log_norm`; not yet tangent to the spheres.
    """

    log_norm: Tensor
    coherence: Tensor
    gradient: Tensor


def half_power(exponent: float) -> int:
    """The largest p on offer with 2p + 2 ≤ the exponent wanted; 1, for exponent 4, at least.

    Examples
    --------
    >>> [half_power(exponent) for exponent in (4, 10, 20, 1026)]
    [1, 4, 8, 512]
    """
    return max(p for p in HALF_POWERS if 2 * p + 2 <= exponent or p == 1)


def smoothed_coherence(U: Tensor, p: int, *, block_rows: int) -> SmoothedCoherence:
    """ln ‖G‖_q at q = 2p + 2 and its gradient.

    Parameters
    ----------
    U : (k, d) tensor
        Unit rows, at least two.
    p : int
        One of `HALF_POWERS`.
    block_rows : int
        Rows multiplied at a time; two buffers of block_rows × k are held.
    """
    k = len(U)
    most = min(block_rows, k) * k
    cosines, weights = U.new_empty(most), U.new_empty(most)
    gradient = torch.zeros_like(U)
    top, total = U.new_zeros(()), U.new_zeros(())  # M so far, Σ (G/M)^q so far
    for start in range(0, k, block_rows):
        stop = min(start + block_rows, k)
        own, rest = stop - start, k - start
        G = cosines[: own * rest].view(own, rest)  # (b, k − start)
        W = weights[: own * rest].view(own, rest)
        torch.mm(U[start:stop], U[start:].T, out=G)
        G[:, :own].fill_diagonal_(0)

        # What was summed relative to a smaller M fades when a larger one turns up, as in a streamed softmax.
        low, high = G.aminmax()
        larger = torch.maximum(torch.maximum(high, -low), top).clamp(min=torch.finfo(U.dtype).tiny)
        fade = top / larger
        gradient *= fade ** (2 * p + 1)
        total *= fade ** (2 * p + 2)
        top = larger

        G /= top
        _power(torch.square(G, out=W), p).mul_(G)  # (G/M)^{2p+1}
        total += torch.dot(W.view(-1), G.view(-1)) - (W[:, :own] * G[:, :own]).sum() / 2  # own pairs appear twice
        gradient[start:stop].addmm_(W, U[start:])
        gradient[stop:].addmm_(W[:, own:].T, U[start:stop])
    return SmoothedCoherence(top.log() + total.log() / (2 * p + 2), top, gradient.div_(total * top))


def _power(x: Tensor, p: int) -> Tensor:
    """x^p in place, 0 ≤ x ≤ 1."""
    x.clamp_(min=FAINTEST ** (1 / p))
    squarings, odd = (p.bit_length() - 1, False) if p & (p - 1) == 0 else ((p // 3).bit_length() - 1, True)
    if odd:
        x *= x.square()
    for _ in range(squarings):
        x.square_()
    return x
