"""The question of kind `toy_model`: a grid of toy models to train, or a figure of the paper. No torch."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from gramian.errors import GeometryError
from gramian.geometry.frequencies import (
    ExponentialLaw,
    FrequencyLaw,
    LinearLaw,
    ListedLaw,
    PowerLaw,
    activation_probabilities,
)
from gramian.geometry.presets import PRESETS, PresetName
from gramian.geometry.toy_study import ToyCell, ToyStudy, TrainingPlan
from gramian.spec_base import Frozen, Question, RequiredDevice

MOST_FEATURES = 20_480
MOST_DIMS = 2_048
MOST_CELLS = 1_200  # the largest figure has 1,020
MOST_BATCH_NUMBERS = 2**27  # samples × features: 512 MiB of float32 at every step
MOST_STORED_NUMBERS = 2**29  # of all W together: 2 GiB of float32
LONGEST_LIST = 64


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


Decay = Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)]
Exponent = Annotated[float, Field(ge=0, le=4, allow_inf_nan=False)]
Scale = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
OneOrMore = BeforeValidator(_listed)

# -- frequencies ------------------------------------------------------------------------------------------------


class PowerFrequencies(Frozen):
    """p_i ∝ i^−exponent; several exponents are several studies."""

    law: Literal["power"]
    exponent: Annotated[tuple[Exponent, ...], OneOrMore] = Field(min_length=1, max_length=LONGEST_LIST)

    def laws(self) -> tuple[FrequencyLaw, ...]:
        return tuple(PowerLaw(exponent) for exponent in self.exponent)


class ExponentialFrequencies(Frozen):
    """p_i ∝ e^−(i−1)/scale."""

    law: Literal["exponential"]
    scale: Annotated[tuple[Scale, ...], OneOrMore] = Field(min_length=1, max_length=LONGEST_LIST)

    def laws(self) -> tuple[FrequencyLaw, ...]:
        return tuple(ExponentialLaw(scale) for scale in self.scale)


class LinearFrequencies(Frozen):
    """p_i ∝ 1 − (i−1)/n."""

    law: Literal["linear"]

    def laws(self) -> tuple[FrequencyLaw, ...]:
        return (LinearLaw(),)


class ListedFrequencies(Frozen):
    """One probability a feature, in any order."""

    law: Literal["list"]
    probabilities: tuple[Probability, ...] = Field(min_length=2, max_length=MOST_FEATURES)

    def laws(self) -> tuple[FrequencyLaw, ...]:
        return (ListedLaw(self.probabilities),)


Frequencies = Annotated[
    PowerFrequencies | ExponentialFrequencies | LinearFrequencies | ListedFrequencies, Field(discriminator="law")
]

# -- the question -----------------------------------------------------------------------------------------------

GRID = ("features", "dims", "frequencies")  # what a grid needs; a preset brings its own


class ToyModelSpec(Question):
    """Train toy models of superposition over a grid, and see how their loss falls with width.

    Either a grid (`features`, `dims`, `frequencies` and what else differs from the published sweeps) or a `preset`.
    """

    method_version = "1"

    kind: Literal["toy_model"] = "toy_model"
    preset: PresetName | None = Field(None, description="A figure of the paper, or `regimes`, instead of a grid.")
    size: Literal["reduced", "full"] | None = Field(
        None, description="Of the preset: minutes on two cores, which is what you get unless told, or as published."
    )
    features: int | None = Field(
        None, ge=2, le=MOST_FEATURES, validate_default=True, examples=[1000], description="n, sparse features."
    )
    dims: tuple[Annotated[int, Field(ge=1, le=MOST_DIMS)], ...] | None = Field(
        None, min_length=1, max_length=LONGEST_LIST, validate_default=True, description="m, hidden dimensions."
    )
    frequencies: Frequencies | None = Field(None, validate_default=True)
    density: float | None = Field(
        None,
        gt=0,
        le=MOST_FEATURES,
        allow_inf_nan=False,
        validate_default=True,
        description="Σp, features active at once on average; unset: 1, or the sum of listed probabilities.",
    )
    weight_decay: Annotated[tuple[Decay, ...], OneOrMore] = Field(
        (-1.0, 1.0), min_length=1, max_length=LONGEST_LIST, description="γ: negative for strong superposition."
    )
    batch: int = Field(2_048, ge=1, le=2**17, validate_default=True)
    steps: int = Field(20_000, ge=1, le=200_000)
    warmup_steps: int | None = Field(None, ge=0, validate_default=True, description="Unset: a tenth of the steps.")
    learning_rate: float = Field(1e-2, gt=0, le=1, allow_inf_nan=False)
    bias_std: float = Field(1.0, ge=0, le=10, allow_inf_nan=False, description="Of the biases at the start.")
    seed: int = Field(0, ge=0, lt=2**53)
    replicates: int = Field(
        1,
        ge=1,
        le=LONGEST_LIST,
        validate_default=True,
        description="Seeds from `seed` on; every cell is run with each.",
    )
    device: RequiredDevice = None

    @field_validator("size")
    @classmethod
    def _of_a_preset(cls, size: str | None, info: ValidationInfo) -> str | None:
        if size is not None and info.data.get("preset") is None:
            raise ValueError("only a preset has a size")
        return size

    @field_validator(*GRID)
    @classmethod
    def _grid_or_preset(cls, value: Any, info: ValidationInfo) -> Any:
        preset = info.data.get("preset")
        if value is None and preset is None:
            raise ValueError("needed unless a preset is named")
        if value is not None and preset is not None:
            raise ValueError(f"preset {preset!r} brings its own")
        return value

    @field_validator("dims")
    @classmethod
    def _fewer_than_features(cls, dims: tuple[int, ...] | None, info: ValidationInfo) -> tuple[int, ...] | None:
        features = info.data.get("features")
        if dims is not None and features is not None and max(dims) >= features:
            raise ValueError(f"superposition needs fewer dimensions than the {features} features, not {max(dims)}")
        if dims is not None and len(set(dims)) < len(dims):
            raise ValueError("a width is there more than once; `replicates` repeats all of them")
        return dims

    @field_validator("frequencies")
    @classmethod
    def _one_for_each_feature(cls, found: Frequencies | None, info: ValidationInfo) -> Frequencies | None:
        features = info.data.get("features")
        if isinstance(found, ListedFrequencies) and features is not None and len(found.probabilities) != features:
            raise ValueError(f"{features} features need as many probabilities, not {len(found.probabilities)}")
        return found

    @field_validator("density")
    @classmethod
    def _possible(cls, density: float | None, info: ValidationInfo) -> float | None:
        features, found = info.data.get("features"), info.data.get("frequencies")
        if features is None or found is None:
            return density
        if density is None:
            density = sum(found.probabilities) if isinstance(found, ListedFrequencies) else 1.0
        try:
            for law in found.laws():
                activation_probabilities(law, features, density=density)
        except GeometryError as error:
            raise ValueError(f"{error.message}; {error.hint}") from error
        return density

    @field_validator("batch")
    @classmethod
    def _fits_into_memory(cls, batch: int, info: ValidationInfo) -> int:
        features = info.data.get("features") or 0
        if batch * features > MOST_BATCH_NUMBERS:
            raise ValueError(
                f"{batch:,} samples of {features:,} features are {batch * features:,} numbers a step; "
                f"at most {MOST_BATCH_NUMBERS:,}"
            )
        return batch

    @field_validator("warmup_steps")
    @classmethod
    def _warms_up_for_a_part(cls, warmup: int | None, info: ValidationInfo) -> int | None:
        steps: int | None = info.data.get("steps")
        if steps is None:
            return warmup
        if warmup is None:
            return steps // 10
        if warmup >= steps:
            raise ValueError(f"of {steps} steps fewer than that warm up, not {warmup}")
        return warmup

    @field_validator("replicates")
    @classmethod
    def _few_enough_cells(cls, replicates: int, info: ValidationInfo) -> int:
        dims, found, decays = (info.data.get(name) for name in ("dims", "frequencies", "weight_decay"))
        if dims is None or found is None or decays is None:
            return replicates
        settings = len(found.laws()) * len(decays) * replicates
        if (cells := len(dims) * settings) > MOST_CELLS:
            raise ValueError(f"the grid has {cells:,} cells; at most {MOST_CELLS:,}")
        numbers = settings * (info.data.get("features") or 0) * sum(m + 2 for m in dims)
        if numbers > MOST_STORED_NUMBERS:
            raise ValueError(f"the matrices of all cells hold {numbers:,} numbers; at most {MOST_STORED_NUMBERS:,}")
        return replicates

    # -- what it comes to --

    def studies(self) -> tuple[ToyStudy, ...]:
        """The grids to train."""
        if self.preset is not None:
            preset = PRESETS[self.preset]
            return preset.full if self.size == "full" else preset.reduced
        assert self.features is not None and self.dims is not None and self.frequencies is not None  # noqa: S101, PT018
        plan = TrainingPlan(
            steps=self.steps,
            warmup_steps=self.warmup_steps or 0,
            batch=self.batch,
            learning_rate=self.learning_rate,
            bias_learning_rate=self.learning_rate,
            bias_std=self.bias_std,
        )
        return (
            ToyStudy(
                self.features,
                self.dims,
                self.weight_decay,
                self.frequencies.laws(),
                (self.density or 1.0,),
                tuple(range(self.seed, self.seed + self.replicates)),
                plan,
            ),
        )

    def cells(self) -> Iterator[ToyCell]:
        """Every model to train, in an order that the same question always has."""
        for study in self.studies():
            yield from study.cells()

    def parameters(self) -> dict[str, Any]:
        asked = super().parameters()
        if self.preset is None:
            return {name: value for name, value in asked.items() if name not in ("preset", "size")}
        return {"kind": self.kind, "preset": self.preset, "size": self.size or "reduced"} | (
            {"device": self.device} if self.device else {}
        )


#: What only a grid has: a preset brings its own.
GRID_SETTINGS = frozenset(ToyModelSpec.model_fields) - {"kind", "preset", "size", "device"}
