"""A study of the toy model: which cells it has, and how each is trained. Data only, no torch.

A cell is one model to train; a study is a grid of cells, n features by widths m, weight decays γ, frequency laws,
densities and seeds.

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §2, whose values are the defaults.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from gramian.errors import GeometryError
from gramian.geometry.frequencies import FrequencyLaw, Vector, activation_probabilities


@dataclass(frozen=True)
class TrainingPlan:
    """How a toy model is trained; the defaults are the published sweeps'.

    Attributes
    ----------
    steps, warmup_steps, batch : int
        Steps in all, of which the first ones warm up; samples a step.
    learning_rate, bias_learning_rate : float
        Peaks of W's and b's.
    reference_width : int, optional
        Where given, the peaks are those at this width; at width m W's is (reference/m)^¼ of it and b's reference/m, as
        in the published large run.
    adam_eps : float
        Adam's ε. The published large run minimises 100·L/n, which is L/n with an ε of 1e-10.
    bias_std : float
        Standard deviation of b at the start, 1 as published. A feature whose bias starts or falls too low never shows
        in y again, gets no gradient and stays dead; started at 0, hardly any does in strong superposition.
    """

    steps: int = 20_000
    warmup_steps: int = 2_000
    batch: int = 2_048
    learning_rate: float = 1e-2
    bias_learning_rate: float = 1e-2
    reference_width: int | None = None
    adam_eps: float = 1e-8
    bias_std: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1 or not 0 <= self.warmup_steps < self.steps:
            raise GeometryError(
                "training takes at least one step and one sample a step, and warms up for part of the steps; not "
                f"{self.steps} steps, {self.warmup_steps} of warm-up, {self.batch} samples"
            )

    def learning_rates(self, dims: int) -> tuple[float, float]:
        """Peak learning rates of W and b at width m.

        Examples
        --------
        >>> TrainingPlan(learning_rate=0.02, bias_learning_rate=0.25, reference_width=8).learning_rates(128)
        (0.01, 0.015625)
        """
        narrower = (self.reference_width or dims) / dims
        return self.learning_rate * narrower**0.25, self.bias_learning_rate * narrower


@dataclass(frozen=True)
class ToyCell:
    """One model to train."""

    features: int
    dims: int
    weight_decay: float
    law: FrequencyLaw
    density: float
    seed: int
    plan: TrainingPlan

    def probabilities(self) -> Vector:
        """p, (n,)."""
        return activation_probabilities(self.law, self.features, density=self.density)


@dataclass(frozen=True)
class ToyStudy:
    """A grid of cells; see `ToyCell` for the fields."""

    features: int
    dims: tuple[int, ...]
    weight_decays: tuple[float, ...]
    laws: tuple[FrequencyLaw, ...]
    densities: tuple[float, ...] = (1.0,)
    seeds: tuple[int, ...] = (0,)
    plan: TrainingPlan = TrainingPlan()

    def cells(self) -> Iterator[ToyCell]:
        """All cells, seeds outermost: a study cut short has fewer replicates, not fewer settings.

        Examples
        --------
        >>> from gramian.geometry.frequencies import PowerLaw
        >>> study = ToyStudy(1000, (10, 100), (-1.0, 1.0), (PowerLaw(1.0),), seeds=(0, 1, 2))
        >>> len(list(study.cells()))
        12
        """
        grid = product(self.seeds, self.densities, self.laws, self.weight_decays, self.dims)
        for seed, density, law, weight_decay, dims in grid:
            yield ToyCell(self.features, dims, weight_decay, law, density, seed, self.plan)
