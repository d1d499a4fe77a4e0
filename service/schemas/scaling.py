"""Fits over widths, and questions of width."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from gramian.geometry.scaling import ISOTROPIC_SLOPE, LossSeries
from service.schemas.common import Caveat, EpsilonClass, Role

MAX_SERIES = 100
MAX_POINTS = 2_000  # of all series together
MAX_ANALYSES = 500

SeriesName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f\ufffe\uffff]+$")]
Width = Annotated[float, Field(ge=1, le=2**53, allow_inf_nan=False)]
Loss = Annotated[float, Field(ge=1e-12, le=1e12, allow_inf_nan=False)]
LossError = Annotated[float, Field(ge=1e-15, le=1e12, allow_inf_nan=False)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


# -- loss against width ---------------------------------------------------------------------------------------


class ScalingSeries(Strict):
    """Losses of one model family on one data set."""

    name: SeriesName
    points: list[tuple[Width, Loss]] = Field(min_length=1, max_length=MAX_POINTS, description="pairs of width and loss")
    standard_errors: list[LossError] | None = Field(
        None, max_length=MAX_POINTS, description="of the losses; for all series or for none"
    )

    @model_validator(mode="after")
    def _an_error_for_each(self) -> Self:
        if self.standard_errors is not None and len(self.standard_errors) != len(self.points):
            raise ValueError(f"{len(self.points)} points need as many standard_errors, not {len(self.standard_errors)}")
        return self

    def series(self) -> LossSeries:
        dims, losses = zip(*self.points, strict=True)
        return LossSeries(self.name, dims, losses, tuple(self.standard_errors) if self.standard_errors else None)


class ScalingRequest(Strict):
    """Series that share A and α of L = A/m^α + B_s."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "series": [
                        {"name": "pile", "points": [[512, 3.7], [1024, 3.0], [2048, 2.6], [4096, 2.4]]},
                        {"name": "c4", "points": [[512, 4.2], [1024, 3.5], [2048, 3.1], [4096, 2.9]]},
                    ]
                }
            ]
        }
    )

    series: list[ScalingSeries] = Field(min_length=1, max_length=MAX_SERIES)

    @field_validator("series")
    @classmethod
    def _names_differ_and_points_are_bounded(cls, series: list[ScalingSeries]) -> list[ScalingSeries]:
        names = [s.name for s in series]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"each series needs a name of its own; {twice!r} is there more than once")
        if (points := sum(len(s.points) for s in series)) > MAX_POINTS:
            raise ValueError(f"{points} points in all; at most {MAX_POINTS} are fitted at once")
        return series


class Fitted(BaseModel):
    """A fitted value, its standard error and its 95 % interval; null where a number exceeds a double."""

    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None


class FittedOffset(Fitted):
    """B_s: what no width removes."""

    name: str
    points: int = Field(description="points of the series that were used: all of them")


class ScalingResidual(BaseModel):
    series: str
    dim: float
    loss: float
    residual: float = Field(description="loss less the fit")


class Covariance(BaseModel):
    parameters: list[str] = Field(description="in the order of the matrix's rows and columns")
    matrix: list[list[float]]


class KnownExponent(BaseModel):
    """A width exponent to compare with."""

    name: Literal["strong_superposition", "published", "chinchilla"]
    value: float
    standard_error: float | None
    standard_errors_away: float | None = Field(description="of a fitted exponent, in joint standard errors")
    words: str


class ScalingFit(BaseModel):
    """L = A/m^α + B_s, by weighted non-linear least squares."""

    alpha: Fitted
    amplitude: Fitted = Field(description="A; its interval is that of ln A")
    offsets: list[FittedOffset]
    residuals: list[ScalingResidual]
    covariance: Covariance
    points_used: int
    degrees_of_freedom: int
    reduced_chi_square: float | None = Field(description="about 1 where given standard errors explain the scatter")
    root_mean_square_residual: float
    beside: list[KnownExponent]
    warnings: list[Caveat]
    source: str


# -- overlap against width ------------------------------------------------------------------------------------


class OverlapQuery(Strict):
    """Conditions on succeeded analyses."""

    q: str | None = Field(None, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$", description="part of the model id")
    model_id: str | None = Field(None, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")
    label: str | None = Field(
        None, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$", description="`name` or `name:value`"
    )
    epsilon_class: EpsilonClass | None = Field(None, alias="class")
    min_dim: int | None = Field(None, ge=0, lt=2**63)
    max_dim: int | None = Field(None, ge=0, lt=2**63)


class OverlapRequest(Strict):
    """Which matrices to fit over: by name, or by condition."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": {"q": "pythia"}}, {"analyses": ["an_01k0000000", "an_01k0000001", "an_01k0000002"]}]
        }
    )

    analyses: list[Annotated[str, StringConstraints(max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]] | None = Field(
        None, min_length=1, max_length=MAX_ANALYSES
    )
    query: OverlapQuery | None = None
    role: Role = Field("output_embedding", description="a tied matrix counts as both")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.analyses is None) == (self.query is None):
            raise ValueError('give either "analyses" or "query"')
        return self


class OverlapSlope(Fitted):
    """Of ln m₂ against ln d."""

    standard_errors_away: float | None = Field(description="from −1, which isotropic rows have")


class OverlapFamily(BaseModel):
    name: str = Field(description="label `family` of the analysis, else its model id up to the size")
    points: int
    slope: OverlapSlope | None = Field(description="null with fewer than three points or two widths")


class FittedOverlap(BaseModel):
    analysis_id: str
    model_id: str | None
    family: str
    role: Role
    rows_used: int
    dim: int
    mean_squared_overlap: float
    overlap_times_dim: float
    residual: float = Field(description="ln m₂ less the line through all points")


class LeftOut(BaseModel):
    """An analysis, or one matrix of it, that does not enter the fit."""

    analysis_id: str
    model_id: str | None
    code: Literal["kind", "status", "role", "method_version", "rows", "same_content"]
    reason: str


class OverlapAnswer(BaseModel):
    """How the mean squared overlap falls with width."""

    expected_slope: float = ISOTROPIC_SLOPE
    slope: OverlapSlope
    log_prefactor: Fitted
    families: list[OverlapFamily]
    points: list[FittedOverlap]
    left_out: list[LeftOut]
    warnings: list[Caveat]
    source: str


# -- questions of width ---------------------------------------------------------------------------------------


class WidthExponent(BaseModel):
    """The exponent in width that one in parameters implies."""

    parameter_exponent: float
    parameters_per_width: float
    width_exponent: float
    words: str
    beside: list[KnownExponent]
    source: str


class FrequencyAnswer(BaseModel):
    law: Literal["power", "exponential", "linear"]
    exponent: float | None = None
    scale: float | None = None


class Ratio(BaseModel):
    """Reducible loss after the change over that before."""

    low: float | None
    high: float | None
    exponent_low: float | None
    exponent_high: float | None
    words: str


class LossRatioAnswer(BaseModel):
    before: int = Field(serialization_alias="from", validation_alias="from")
    to: int
    features: int | None
    frequencies: FrequencyAnswer
    strong: Ratio
    weak: Ratio
    published: Ratio
    caveats: list[Caveat]
    source: str


class Condition(BaseModel):
    name: Literal["crowded", "flat"]
    holds: bool
    value: float | None
    threshold: float
    words: str


class ExponentBounds(BaseModel):
    low: float
    high: float | None


class RegionAnswer(BaseModel):
    """Whether loss and overlap should fall as 1/d."""

    features: int
    dim: int
    frequencies: FrequencyAnswer
    holds: bool
    words: str
    conditions: list[Condition]
    expected_exponent: ExponentBounds = Field(description="of the loss in strong superposition")
    weak_exponent: float | None = Field(description="of the loss in weak superposition, many features")
    caveats: list[Caveat]
    source: str
