"""Published capacities, and ours beside them."""

from typing import Literal

from pydantic import BaseModel, Field

from service.schemas.capacity import Bounds, Position
from service.schemas.common import Role


class CapacityAtPublishedEpsilon(BaseModel):
    """What is answered here for the published ε."""

    status: Literal["estimated", "indeterminate"]
    directions: float | None
    log10_directions: float | None
    interval_log10: tuple[float, float] | None
    bounds: Bounds
    position: Position | None = Field(description="of the estimate among the bounds")


class AnalysedModel(BaseModel):
    """The latest analysis here of a model of the same name and dimension."""

    analysis_id: str
    model_id: str
    revision: str | None
    commit: str | None
    role: Role
    epsilon: float
    epsilon_standard_error: float | None
    capacity_status: Literal["estimated", "indeterminate"]
    capacity_log10: float | None
    difference_epsilon: float = Field(description="ours less the published")


class PublishedModel(BaseModel):
    """One row of the table as printed, and what is known here."""

    model: str = Field(description="the name that the table has")
    published: Literal[True] = True
    dim: int
    epsilon: float = Field(description="as published, of the token embedding")
    published_capacity: float | None = Field(description="null where the table calls it indeterminate")
    published_log10: float | None
    capacity: CapacityAtPublishedEpsilon
    analysed: AnalysedModel | None = Field(description="matched by name and dimension: the table has no ids")


class PublishedModels(BaseModel):
    items: list[PublishedModel]
    source: str
