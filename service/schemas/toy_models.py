"""What a toy-model analysis found."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from gramian.storage.tables import AnalysisRow
from service.schemas.matrices import Norms
from service.schemas.scaling import Fitted

Law = Literal["power", "exponential", "linear", "list"]
ToyRegime = Literal["weak", "strong", "intermediate"]


class ToySetting(BaseModel):
    """What the cells of a series have in common."""

    features: int
    weight_decay: float
    law: Law
    exponent: float | None = Field(description="of a power law")
    scale: float | None = Field(description="of an exponential law")
    density: float
    bias_std: float


class NormSplit(BaseModel):
    represented: Norms | None
    others: Norms | None
    between: float | None = Field(description="share of the norms' variance that lies between the two kinds")


class Equiangularity(BaseModel):
    """|cos| over all pairs of represented rows: the Welch bound with no spread in an equiangular tight frame."""

    rows: int
    welch: float
    mean: float
    std: float


class ToyCellLinks(BaseModel):
    weights: str = Field(description="W (n × m) and the loss of each feature alone (n), float32, as safetensors")


class ToyCellResult(ToySetting):
    """One trained model."""

    number: int
    dim: int
    seed: int
    steps: int
    batch: int
    loss: float = Field(description="summed squared error of a sample, mean over the last 100 steps")
    loss_std: float
    represented: int = Field(description="rows with a norm above ½")
    represented_fraction: float
    norm: Norms
    norm_split: NormSplit
    mean_squared_overlap: float
    overlap_times_dim: float
    welch_floor: float = Field(description="the least mean squared overlap of so many rows")
    random_overlap: float = Field(description="1/m, that of random rows")
    equiangularity: Equiangularity | None
    regime: ToyRegime
    dead: int = Field(description="features that can never show in the output again")
    ignored_loss: float = Field(description="4/3 Σ p over all but the φn most frequent features")
    short_rows_loss: float = Field(description="4/3 Σ p over the features whose rows are short")
    seconds: float
    links: ToyCellLinks

    @classmethod
    def of(cls, analysis_id: str, stored: dict[str, Any]) -> Self:
        """A cell as it was stored, with the address of its file."""
        weights = f"/v1/analyses/{analysis_id}/cell-{stored['number']}.safetensors"
        return cls.model_validate(stored | {"links": {"weights": weights}})


class ToyCellList(BaseModel):
    items: list[ToyCellResult]
    total: int = Field(description="cells of the whole sweep")


class PredictedLoss(BaseModel):
    dim: int
    loss: float
    predicted: float


class WeakTheory(BaseModel):
    alpha: float | None = Field(description="of the predicted losses over the same widths")
    alpha_without_end: float | None = Field(description="α − 1, for many features; null where that is not above 0")
    losses: list[PredictedLoss]


class StrongTheory(BaseModel):
    alpha_low: float
    alpha_high: float | None


class ToyTheory(BaseModel):
    weak: WeakTheory
    strong: StrongTheory


class ToySeriesResult(ToySetting):
    """Cells that differ in width and seed only: L ∝ m^−α_m."""

    dims: list[int]
    seeds: list[int]
    alpha: Fitted | None
    reason: str | None = Field(description="why there is no exponent")
    regime: ToyRegime | None = Field(description="of all cells; null where they differ")
    theory: ToyTheory | None


class ToyModelResult(BaseModel):
    cells: list[ToyCellResult]
    series: list[ToySeriesResult]

    @classmethod
    def from_row(cls, row: AnalysisRow) -> Self:
        answer = row.answer or {}
        return cls(
            cells=[ToyCellResult.of(row.id, cell) for cell in answer["cells"]],
            series=[ToySeriesResult.model_validate(series) for series in answer["series"]],
        )
