"""`make bench-toy`: one training step of the toy model against the dense step of the paper's code, turn by turn.

n = 1000 features, m = 50 dimensions, 2048 samples, p ∝ 1/i, γ = −1. Both draw their samples, and both take Adam's step
and the decay.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Annotated

import torch
import typer
from torch import Tensor

from gramian.geometry.frequencies import PowerLaw, activation_probabilities
from gramian.geometry.sparse_features import SparseSampler
from gramian.geometry.toy_model import ToyModel, backpropagate, decay_

FEATURES, DIMS, BATCH = 1000, 50, 2048
LEARNING_RATE, WEIGHT_DECAY = 1e-2, -1.0
LEAST = 4.0  # times faster, promised

Step = Callable[[], None]


def main(
    rounds: Annotated[int, typer.Option(min=3, help="Steps of each that are timed, interleaved.")] = 60,
    threads: Annotated[int, typer.Option(min=1, help="For torch's products.")] = 1,
) -> None:
    """Time both, print medians and where the sparse step's time goes; exit with 1 below the promised ratio."""
    torch.set_num_threads(threads)
    steps = {"dense, as published": dense_step(), "sparse": sparse_step(), **parts()}
    seconds = defaultdict(list)
    for turn in range(rounds + 5):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if turn >= 5:  # the first ones warm up
                seconds[name].append(time.perf_counter() - started)
    typical = {name: median(times) for name, times in seconds.items()}
    print(f"n={FEATURES}, m={DIMS}, {BATCH} samples, {threads} threads, torch {torch.__version__}, {rounds} steps each")
    for name, found in typical.items():
        print(f"{name:>32}  {1e3 * found:7.2f} ms  ({1e3 * min(seconds[name]):.2f} to {1e3 * max(seconds[name]):.2f})")
    ratio = typical["dense, as published"] / typical["sparse"]
    print(f"{'met' if ratio >= LEAST else 'missed'}: {ratio:.1f} times faster; at least {LEAST:.0f} wanted")
    if ratio < LEAST:
        raise typer.Exit(1)


def _start() -> tuple[ToyModel, torch.optim.Adam, torch.Generator]:
    generator = torch.Generator().manual_seed(0)
    model = ToyModel(FEATURES, DIMS, bias_std=1.0, generator=generator)
    return model, torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True), generator


def dense_step() -> Step:
    """The step of arXiv:2505.10465's code: two dense draws, autograd through five dense products."""
    model, adam, generator = _start()
    p = torch.from_numpy(activation_probabilities(PowerLaw(1.0), FEATURES)).float()
    W = model.W

    def step() -> None:
        active = (torch.rand(BATCH, FEATURES, generator=generator) < p).float()  # (B, n)
        x = active * torch.rand(BATCH, FEATURES, generator=generator) * 2  # (B, n)
        adam.zero_grad()
        loss: Tensor = torch.nn.functional.mse_loss(model(x), x)
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            W.add_(WEIGHT_DECAY * W * (1 - 1 / (W.norm(dim=1, keepdim=True) + 1e-8)), alpha=LEARNING_RATE)
        adam.step()
        loss.item()

    return step


def sparse_step() -> Step:
    """The step of `gramian.geometry.toy_model`."""
    model, adam, generator = _start()
    sampler = SparseSampler(activation_probabilities(PowerLaw(1.0), FEATURES), generator)
    scratch = torch.empty(BATCH, FEATURES)

    def step() -> None:
        loss = backpropagate(model, sampler.draw(BATCH), scratch)
        decay_(model.W.data, weight_decay=WEIGHT_DECAY, learning_rate=LEARNING_RATE)
        adam.step()
        loss.item()

    return step


def parts() -> dict[str, Step]:
    """Parts of the sparse step, each on its own."""
    model, adam, generator = _start()
    sampler = SparseSampler(activation_probabilities(PowerLaw(1.0), FEATURES), generator)
    rows = len(torch.unique(sampler.draw(BATCH).sample))  # samples in which anything is active
    W, h = model.W.detach(), torch.randn(rows, DIMS, generator=generator)
    y = torch.empty(rows, FEATURES)
    model.W.grad, model.b.grad = torch.zeros_like(model.W), torch.zeros_like(model.b)

    def draw() -> None:
        sampler.draw(BATCH)

    def products() -> None:
        torch.mm(h, W.T, out=y)
        _ = y @ W
        _ = y.T @ h

    def passes() -> None:
        y.relu_()
        torch.dot(y.view(-1), y.view(-1))
        y.sum(0)

    def update() -> None:
        decay_(model.W.data, weight_decay=WEIGHT_DECAY, learning_rate=LEARNING_RATE)
        adam.step()

    named = (draw, products, passes, update)
    words = ("samples", "three products", "ReLU, loss, bias gradient", "decay and Adam")
    return {f"sparse: {word}": part for word, part in zip(words, named, strict=True)}


if __name__ == "__main__":
    typer.run(main)
