"""A model over its revisions."""

from datetime import datetime

from pydantic import BaseModel, Field

from service.schemas.common import EpsilonClass, Role


class HistoryPoint(BaseModel):
    """One commit's numbers."""

    commit: str
    revision: str | None = Field(description="the branch, tag or commit that was asked for")
    at: datetime = Field(description="when the commit's first analysis was asked for")
    analysis_id: str
    epsilon: float
    standard_error: float | None
    epsilon_class: EpsilonClass = Field(serialization_alias="class")
    shift: float | None = Field(description="ε less that of the commit before")
    class_changed: bool
    capacity_log10: float | None
    mean_squared_overlap: float
    overlap_times_dim: float
    effective_rank: float
    represented_fraction: float
    rows_used: int
    dim: int


class History(BaseModel):
    """A model's commits, the oldest first, by analyses that may be compared with the latest."""

    model_id: str
    role: Role
    method_version: str
    rows_exclude: list[str] = Field(description="as the latest question had it; analyses of another are left out")
    items: list[HistoryPoint]
    left_out: int = Field(description="analyses by another method version or over other rows")
    truncated: bool = Field(description="whether older analyses than those looked at exist; `limit` sets how many are")
