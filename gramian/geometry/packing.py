"""Packings: k unit vectors in R^d whose largest |cosine| ε* is as small as can be found.

Two ways, random draws and descent; `codes` has a third, explicit one. Descent minimises the q-norm of the cosines
(see `packing_gradient`) on the product of spheres. Three things let it find better packings than the published
descent in a tenth of the steps:

- the exponent q rises from 4 to 1026 along ln q ∝ (step/steps)²: slowly first, where the rows settle as a whole, then
  fast, where only the closest pairs are still pushed apart;
- the step size is tied to it, η·q = const from η = 1.5/d on: the curvature of the q-norm grows with q, and steps that
  suit q = 4 make the closest pairs jump at q = 100. Both are the same movement of a cosine relative to ε*;
- Adam with one second moment a row instead of one a coordinate, which makes the path independent of the basis.

The schedule adapts: in its second half, where ε* has not fallen for a while, it runs four times as fast, so that a
search that has found what it can find ends early, with its landing.

The largest of the true cosines is seen at every step at no cost; the best rows seen are what is returned.

Source of the experiment: A. Guha, arXiv:2606.02765, §3.3; there 5,000 steps of Adam, at most exponent 20, at a
constant step size.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import cos, pi
from time import monotonic
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gramian.errors import GeometryError
from gramian.geometry.baselines import welch_bound
from gramian.geometry.packing_gradient import half_power, smoothed_coherence

Method = Literal["optimized", "random", "code"]

FIRST_STEP = 1.5  # over d: from 0.75 to 3 the result changes by less than a per cent
EXPONENTS = (4.0, 1026.0)  # from 250 to 4000 at the end, by less than half a per cent
LANDING = 0.1  # the last tenth of the steps, in which the step size falls to 0
MOMENTUM, SECOND_MOMENT = 0.9, 0.9  # of Adam; 0.999 remembers gradients of an exponent long past
AT_WELCH = 1e-6  # relative: a packing this close to the bound cannot be improved in float32
NEAR_WELCH = 1e-4  # relative: another start cannot find anything better than what ends so close
ADAPTING_FROM = 0.5  # of the schedule: before, the exponent is too low for ε* to follow the objective
PATIENCE = (0.05, 50)  # of the steps, and at least so many, without a fall of ε*
FALL = 0.01  # of what ε* is above the Welch bound: less is none
HASTE = 4  # times as fast from there until ε* falls again
HISTORY = 100  # points kept
CPU_BLOCK, GPU_BLOCK = 256, 4096  # rows: buffers that stay near the caches; products that fill a GPU


@dataclass(frozen=True, eq=False)
class Packing:
    """k unit vectors in R^d and how close the closest two are.

    Attributes
    ----------
    vectors : (k, d) float32 tensor
        Rows of unit length, on the generator's device.
    epsilon : float
        ε* = max |u_i·u_j| over all pairs of these rows, normalised and multiplied in float64.
    welch_bound : float
        √((k−d)/(d(k−1))), below which no packing gets; 0 where k ≤ d.
    ratio_to_welch : float or None
        ε*/Welch bound; None where that is 0.
    history : tuple of (step, ε)
        The largest |cosine| at some of the steps (or draws), not its running minimum.
    steps : int
        Steps done (or draws), fewer than asked for when the Welch bound was met or ε* fell no more.
    method : "optimized", "random" or "code"
        How it was found.
    seed : int or None
        The generator's initial seed.
    starts : int
        How many random starts this is the best of.
    """

    vectors: Tensor
    epsilon: float
    welch_bound: float
    ratio_to_welch: float | None
    history: tuple[tuple[int, float], ...]
    steps: int
    method: Method
    seed: int | None
    starts: int = 1


class PackingProgress(NamedTuple):
    """Where a search stands."""

    step: int  # done, of as many as were asked for
    epsilon: float  # of the present rows
    seconds: float  # since the start


Report = Callable[[PackingProgress], None]
"""Told of progress after every step or draw; what it raises ends the search."""


def coherence(vectors: Tensor, *, block_rows: int = CPU_BLOCK) -> float:
    """Mutual coherence: the largest |cosine| of two rows, over all pairs, in float64.

    Parameters
    ----------
    vectors : (k, d) tensor
        At least two rows, none zero; they need not have unit length.
    block_rows : int
        Rows multiplied at a time.

    Examples
    --------
    >>> round(coherence(torch.tensor([[1.0, 0.0], [1.0, 1.0], [-1.0, 1.0]])), 6)
    0.707107
    """
    U = _unit(vectors.to(torch.float64))
    return max(float(_largest(U, start, block_rows)) for start in range(0, len(U), block_rows))


def random_packing(
    k: int,
    d: int,
    *,
    draws: int,
    generator: torch.Generator,
    block_rows: int | None = None,
    report: Report = lambda _: None,
) -> Packing:
    """The best of several draws of k random directions.

    Parameters
    ----------
    k, d : int
        Vectors and dimensions, k ≥ 2.
    draws : int
        How many sets are drawn, of which the one with the smallest largest |cosine| is kept.
    generator : torch.Generator
        Source of randomness; its device is where the work is done.
    block_rows : int, optional
        Rows multiplied at a time.
    report : callable
        Told of progress; may raise.

    Raises
    ------
    GeometryError
        For fewer than two vectors, one dimension or one draw.

    Examples
    --------
    >>> found = random_packing(100, 16, draws=10, generator=torch.Generator().manual_seed(0))
    >>> 0.6 < found.epsilon < 0.9
    True
    """
    _require(k, d, draws, "draw")
    block_rows = block_rows or _block_rows(generator.device)
    began = monotonic()
    best, least = None, 2.0
    history = []
    for draw in range(1, draws + 1):
        U = _directions(k, d, generator)
        epsilon = max(float(_largest(U, start, block_rows)) for start in range(0, k, block_rows))
        if epsilon < least:
            best, least = U, epsilon
            history.append((draw, epsilon))
        report(PackingProgress(draw, epsilon, monotonic() - began))
    assert best is not None  # noqa: S101 - there was a draw
    return packing_of(best, method="random", history=history, steps=draws, seed=generator.initial_seed())


def optimize_packing(
    k: int,
    d: int,
    *,
    steps: int,
    generator: torch.Generator,
    start: Tensor | None = None,
    exponents: tuple[float, float] = EXPONENTS,
    block_rows: int | None = None,
    report: Report = lambda _: None,
) -> Packing:
    """Descend from random directions, or from `start`, to a packing with a small largest |cosine|.

    Up to d vectors the answer is known, an orthonormal basis, and is given without a step.

    Parameters
    ----------
    k, d : int
        Vectors and dimensions, k ≥ 2.
    steps : int
        At most so many, over which the schedule is stretched. 300 come within a per cent of 1,000.
    generator : torch.Generator
        Source of the random start; its device is where the work is done.
    start : (k, d) tensor, optional
        Directions to start from instead. With the usual exponents they are soon forgotten; begin at 100 or more to
        stay near them.
    exponents : (float, float)
        First and last q, 4 ≤ first ≤ last. The step size is tied to q.
    block_rows : int, optional
        Rows multiplied at a time: memory is some 5·k·d + 2·block_rows·k numbers.
    report : callable
        Told of progress after every step; may raise to abort.

    Raises
    ------
    GeometryError
        For fewer than two vectors, one dimension or one step, exponents or a start that do not fit.

    Examples
    --------
    The six diagonals of the icosahedron, equiangular at 1/√5:

    >>> found = optimize_packing(6, 3, steps=300, generator=torch.Generator().manual_seed(0))
    >>> round(found.epsilon, 3), round(found.ratio_to_welch, 3)
    (0.447, 1.0)
    """
    _require(k, d, steps, "step")
    if not 4 <= exponents[0] <= exponents[1]:
        raise GeometryError(f"exponents rise from 4 or more, not from {exponents[0]:g} to {exponents[1]:g}")
    if start is not None and start.shape != (k, d):
        raise GeometryError(f"the start must be {k} × {d}, not {' × '.join(map(str, start.shape))}")
    seed = generator.initial_seed()
    U = _directions(k, d, generator) if start is None else _unit(start.to(generator.device, torch.float32))
    if k <= d:
        basis, _ = torch.linalg.qr(U.T.to(torch.float64))  # (d, k), orthonormal columns
        return packing_of(basis.T.to(torch.float32), method="optimized", history=[], steps=0, seed=seed)

    block_rows = block_rows or _block_rows(generator.device)
    bound = welch_bound(k, d)
    began = monotonic()
    descent = _Descent(U)
    best, least = U.clone(), 2.0
    history: list[tuple[int, float]] = []
    done = 0
    pace = _Pace(steps, bound)
    while pace.position < 1:
        exponent, size = _schedule(pace.position, exponents)
        found = smoothed_coherence(descent.U, half_power(exponent), block_rows=block_rows)
        epsilon = float(found.coherence)
        if epsilon < least:
            least = epsilon
            best.copy_(descent.U)
        if done % max(1, steps // HISTORY) == 0:
            history.append((done, epsilon))
        if least <= bound * (1 + AT_WELCH):
            break
        descent.move(found.gradient, size / d)
        done += 1
        pace.advance(least)
        report(PackingProgress(done, epsilon, monotonic() - began))
    last = coherence(descent.U, block_rows=block_rows)
    history.append((done, last))
    return packing_of(descent.U if last < least else best, method="optimized", history=history, steps=done, seed=seed)


def best_of_starts(
    k: int,
    d: int,
    *,
    steps: int,
    starts: int,
    generator: torch.Generator,
    report: Report = lambda _: None,
) -> Packing:
    """The best of several descents, each from other random directions.

    Where the optimum is an equiangular tight frame, most starts may end beside it: at (16, 6) one of four finds it. The
    first start that ends within 10⁻⁴ of the Welch bound is the last.

    Parameters
    ----------
    k, d, steps, generator
        As in `optimize_packing`.
    starts : int
        At most so many descents, at least one.
    report : callable
        Told of progress over all starts together.

    Examples
    --------
    >>> found = best_of_starts(28, 7, steps=600, starts=4, generator=torch.Generator().manual_seed(0))
    >>> round(found.epsilon, 3), found.starts < 4
    (0.333, True)
    """
    _require(k, d, starts, "start")
    best: Packing | None = None
    began = monotonic()
    for start in range(starts):

        def tell(at: PackingProgress, done: int = start * steps) -> None:
            report(PackingProgress(done + at.step, at.epsilon, monotonic() - began))

        found = optimize_packing(k, d, steps=steps, generator=generator, report=tell)
        if best is None or found.epsilon < best.epsilon:
            best = found
        best = replace(best, starts=start + 1)
        if best.epsilon <= best.welch_bound * (1 + NEAR_WELCH) or k <= d:
            break
    assert best is not None  # noqa: S101 - there was a start
    return best


def packing_of(
    vectors: Tensor, *, method: Method, history: list[tuple[int, float]], steps: int, seed: int | None
) -> Packing:
    """Rows of unit length as a `Packing`, their ε* found over all pairs."""
    k, d = vectors.shape
    epsilon, bound = coherence(vectors), welch_bound(k, d)
    return Packing(
        vectors=vectors,
        epsilon=epsilon,
        welch_bound=bound,
        ratio_to_welch=epsilon / bound if bound else None,
        history=tuple(history),
        steps=steps,
        method=method,
        seed=seed,
    )


class _Descent:
    """Adam on a product of spheres, with one second moment a row."""

    def __init__(self, U: Tensor) -> None:
        self.U = U  # (k, d), changed in place
        self._mean = torch.zeros_like(U)  # (k, d)
        self._square = U.new_zeros(len(U), 1)
        self._moves = 0

    def move(self, gradient: Tensor, size: float) -> None:
        """One step of root-mean-square length `size` a coordinate; `gradient` is consumed."""
        U = self.U
        gradient -= (gradient * U).sum(dim=1, keepdim=True) * U  # tangent to each row's sphere
        self._moves += 1
        self._mean.lerp_(gradient, 1 - MOMENTUM)
        self._square.lerp_(gradient.square().mean(dim=1, keepdim=True), 1 - SECOND_MOMENT)
        scale = (self._square / (1 - SECOND_MOMENT**self._moves)).sqrt_().clamp_(min=1e-20)
        U.sub_(self._mean / scale, alpha=size / (1 - MOMENTUM**self._moves))
        U /= torch.linalg.vector_norm(U, dim=1, keepdim=True)


class _Pace:
    """Where in its schedule a descent is, from 0 to 1: one step further, or several where ε* falls no more."""

    def __init__(self, steps: int, bound: float) -> None:
        self._steps, self._bound = steps, bound
        self._patience = max(PATIENCE[0] * steps, PATIENCE[1])
        self._taken = 0  # steps' worth of schedule
        self._fallen_to, self._waited = 2.0, 0

    @property
    def position(self) -> float:
        return self._taken / self._steps

    def advance(self, least: float) -> None:
        """Told the least ε* so far."""
        if least - self._bound < (self._fallen_to - self._bound) * (1 - FALL):
            self._fallen_to, self._waited = least, 0
        else:
            self._waited += 1
        hurries = self.position >= ADAPTING_FROM and self._waited > self._patience
        self._taken += HASTE if hurries else 1


def _schedule(x: float, exponents: tuple[float, float]) -> tuple[float, float]:
    """Exponent and step size times d after a share x of the steps."""
    first, last = exponents
    exponent = first * (last / first) ** (x * x)
    landing = max(0.0, (x - (1 - LANDING)) / LANDING)
    return exponent, FIRST_STEP * EXPONENTS[0] / exponent * (1 + cos(pi * landing)) / 2


def _directions(k: int, d: int, generator: torch.Generator) -> Tensor:
    return _unit(torch.randn(k, d, generator=generator, device=generator.device))


def _unit(W: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(W, dim=1, keepdim=True)  # (k, 1)
    return W / norms


def _largest(U: Tensor, start: int, block_rows: int) -> Tensor:
    """The largest |cosine| of a block of rows with themselves and the rows after them."""
    G = U[start : start + block_rows] @ U[start:].T
    G.fill_diagonal_(0)  # row i of the block is row start + i: its own cosine
    low, high = G.aminmax()
    return torch.maximum(high, -low)


def _block_rows(device: torch.device) -> int:
    return CPU_BLOCK if device.type == "cpu" else GPU_BLOCK


def _require(k: int, d: int, count: int, what: str) -> None:
    if k < 2 or d < 1 or count < 1:
        raise GeometryError(
            f"a packing has at least 2 vectors in 1 dimension and is sought in at least 1 {what}; "
            f"these are {k} in {d}, and {count}"
        )
