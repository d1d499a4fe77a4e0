"""Models and comparisons: the scalars of matrices in rows."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from gramian.storage.tables import AnalysisRow, MatrixRow
from service.schemas.common import EpsilonClass, ModelReference, Role

#: Fields that are called otherwise than their column.
COLUMNS = {
    "epsilon_standard_error": "epsilon_se",
    "excess": "epsilon_excess",
    "mean_squared_overlap": "cosine_mean_square",
}


class MatrixSummary(BaseModel):
    """The scalars of one matrix that tables and comparisons show."""

    analysis_id: str
    role: Role
    tensor: str
    dtype: str
    digest: str
    rows: int
    rows_used: int
    dim: int
    epsilon: float
    epsilon_standard_error: float | None
    epsilon_random: float
    excess: float
    epsilon_class: EpsilonClass = Field(serialization_alias="class")
    cosine_mean: float
    cosine_std: float
    capacity_status: Literal["estimated", "indeterminate"]
    capacity_log10: float | None
    capacity_interval_log10: tuple[float, float] | None
    mean_squared_overlap: float
    overlap_times_dim: float
    welch_floor: float
    effective_rank: float
    represented_fraction: float
    feature_dimensionality: float
    norm_median: float
    regime: str

    @classmethod
    def of(cls, row: MatrixRow, **more: Any) -> Self:
        """The row's columns, and what a subclass adds."""
        columns = {name: getattr(row, COLUMNS.get(name, name)) for name in MatrixSummary.model_fields}
        return cls(**columns, **more)


class ModelSummary(MatrixSummary):
    """A model's latest numbers."""

    model_id: str
    revision: str | None
    commit: str | None
    analysed_at: datetime
    method_version: str
    rows_exclude: list[str] = Field(description="as the question had it")

    @classmethod
    def from_rows(cls, analysis: AnalysisRow, matrix: MatrixRow) -> Self:
        return cls.of(
            matrix,
            rows_exclude=analysis.excluded,
            model_id=analysis.model_id,
            revision=analysis.revision,
            commit=analysis.commit,
            analysed_at=analysis.finished_at,
            method_version=analysis.method_version,
        )


class ModelList(BaseModel):
    items: list[ModelSummary]
    next_cursor: str | None


class ComparedItem(MatrixSummary):
    """One side of a comparison."""

    reference: str = Field(description="as it was asked for")
    model: ModelReference | None
    method_version: str
    rows_exclude: list[str] = Field(description="as the question had it")

    @classmethod
    def from_rows(cls, reference: str, analysis: AnalysisRow, matrix: MatrixRow) -> Self:
        model = None
        if analysis.model_id:
            model = ModelReference(id=analysis.model_id, revision=analysis.revision, commit=analysis.commit)
        return cls.of(
            matrix,
            reference=reference,
            model=model,
            method_version=analysis.method_version,
            rows_exclude=analysis.excluded,
        )


class Difference(BaseModel):
    """One quantity against the first item's."""

    metric: str
    values: list[float | None]
    difference: list[float | None]
    standard_error: list[float | None] | None = Field(
        None, description="of each difference, where the quantity has one: rows are taken as independent samples"
    )
    rank: list[int | None] = Field(description="1 is the largest value")


class Incomparable(BaseModel):
    """Why two items' numbers should not be set against each other."""

    between: tuple[int, int] = Field(description="positions in `items`")
    code: Literal["method_version", "tensor_role", "rows_excluded", "dim", "same_content"]
    reason: str


class Comparison(BaseModel):
    items: list[ComparedItem]
    differences: list[Difference]
    not_comparable: list[Incomparable]
    notes: list[Incomparable] = Field(description="what to keep in mind where a comparison is fair")
