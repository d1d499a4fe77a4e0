"""Fits of the relations between vectors, dimensions and ε* to packings."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

from gramian.geometry.packing_fit import PackingForm
from service.schemas.common import Caveat
from service.schemas.scaling import Covariance, Strict

MAX_POINTS = 10_000
MAX_ANALYSES = 500

Vectors = Annotated[float, Field(ge=2, le=2**53, allow_inf_nan=False)]
Dim = Annotated[float, Field(ge=1, le=2**53, allow_inf_nan=False)]
Cosine = Annotated[float, Field(ge=1e-12, le=1, allow_inf_nan=False)]

Points = Annotated[list[tuple[Vectors, Dim, Cosine]], Field(min_length=1, max_length=MAX_POINTS)]
PublishedPoints = Literal["published", "published_random"]
AnalysisId = Annotated[str, StringConstraints(max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _points_or_name(given: object) -> str:
    return "name" if isinstance(given, str) else "points"


class PackingFitRequest(Strict):
    """Packings, and which relations to fit to them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"points": "published", "exclude_k_below_d": True},
                {"points": [[2000, 64, 0.2157], [2000, 128, 0.1316], [2000, 256, 0.0788], [4000, 256, 0.0922]]},
                {"analyses": ["an_01k0000000", "an_01k0000001"], "forms": ["ratio"]},
            ]
        }
    )

    points: (
        Annotated[
            Annotated[Points, Tag("points")] | Annotated[PublishedPoints, Tag("name")], Discriminator(_points_or_name)
        ]
        | None
    ) = Field(None, description="[vectors k, dimensions d, ε*] each; or what was published, of descent or random draws")
    analyses: list[AnalysisId] | None = Field(
        None, min_length=1, max_length=MAX_ANALYSES, description="packing analyses by their ids"
    )
    forms: list[PackingForm] | None = Field(
        None, min_length=1, max_length=4, description="unset: all that the packings determine"
    )
    exclude_k_below_d: bool = Field(False, description="leave out k ≤ d, where an orthonormal basis has ε = 0")
    robust: bool = Field(False, description="give outliers less weight")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.points is None) == (self.analyses is None):
            raise ValueError('give either "points" or "analyses"')
        return self


class FittedForm(BaseModel):
    """One relation, by least squares on ε."""

    relation: str
    constants: dict[str, float]
    standard_errors: dict[str, float]
    covariance: Covariance
    r2: float | None = Field(description="null where all ε are equal")
    mape: float | None = Field(description="mean of |residual|/ε, in per cent")
    rmse: float
    nrmse: float | None = Field(description="as a share of the range of ε; null where that is 0")
    residuals: list[float] = Field(description="predicted less measured ε, in the order of `points`")


class LeftOutPacking(BaseModel):
    """An analysis that does not enter the fit."""

    analysis_id: str
    code: Literal["kind", "status", "orthogonal"]
    reason: str


class PackingFitAnswer(BaseModel):
    forms: dict[PackingForm, FittedForm | None] = Field(description="null where the packings do not determine it")
    points: list[tuple[float, float, float]] = Field(description="that were used: k, d, ε*")
    points_used: int
    excluded_k_below_d: int = Field(description="points left out because k ≤ d")
    robust: bool
    left_out: list[LeftOutPacking]
    warnings: list[Caveat]
    source: str
