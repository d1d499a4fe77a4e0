"""Answers about capacity, of the calculators and inside of results."""

from typing import Literal

from pydantic import BaseModel, Field

from gramian.geometry.capacity import Form
from service.schemas.common import Caveat


class CapacityResult(BaseModel):
    """Directions reachable by descent, by the published fit: an estimate, not an upper bound."""

    status: Literal["estimated", "indeterminate"]
    reason: str | None = Field(None, description="why there is no headline number")
    directions: float | None
    log10_directions: float | None
    interval_log10: tuple[float, float] | None = Field(None, description="95 %, from the standard error of ε alone")
    extrapolated: bool
    forms: dict[str, float | None] = Field(description="directions by form; null where the count exceeds a double")
    forms_log10: dict[str, float]
    forms_below_dim: list[str] = Field(description="forms that fall below the d directions that exist in any case")
    warnings: list[Caveat]


class CapacityAnswer(CapacityResult):
    dim: int
    epsilon: float


class EpsilonAnswer(BaseModel):
    dim: int
    directions: float | None
    log10_directions: float | None
    form: Form
    epsilon: float


class DimensionAnswer(BaseModel):
    epsilon: float
    directions: float | None
    log10_directions: float | None
    form: Form
    dimension: int
    log10_directions_there: float = Field(description="log10 of the directions that this dimension offers by the form")


class MatrixCapacity(CapacityResult):
    vocabulary_directions: int
    headroom: float | None
