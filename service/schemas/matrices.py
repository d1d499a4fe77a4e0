"""One analysed matrix, whole as a result shows it."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from gramian.storage.tables import MatrixRow
from service.schemas.capacity import MatrixCapacity
from service.schemas.common import EpsilonClass, Role


class Cosine(BaseModel):
    """Moments over all unordered pairs of used rows: exact."""

    pairs: int
    mean: float
    std: float
    mean_square: float
    mean_standard_error: float | None
    std_standard_error: float | None
    mode: Literal["moments"] = "moments"


class Epsilon(BaseModel):
    """ε = mean + 2·std of the pairwise cosines, its standard error over rows, and random rows' 2/√d."""

    value: float
    standard_error: float | None
    random: float
    excess: float


class Norms(BaseModel):
    mean: float
    std: float
    min: float
    max: float
    median: float


class Superposition(BaseModel):
    norm: Norms
    represented_fraction: float = Field(description="share of rows with a norm above half the median norm")
    mean_squared_overlap: float
    overlap_times_dim: float
    welch_floor: float
    effective_rank: float
    feature_dimensionality: float = Field(description="mean over rows of ‖W_i‖² / Σ_j (Ŵ_i·W_j)²")
    regime: Literal["strong", "weak", "intermediate", "none"]
    regime_basis: dict[str, float]


class MatrixResult(BaseModel):
    role: Role
    tensor: str
    dtype: str
    digest: str = Field(description="SHA-256 of the tensor's bytes, row-major and little-endian")
    rows: int
    dim: int
    rows_used: int
    rows_excluded: dict[str, int]
    cosine: Cosine
    epsilon: Epsilon
    epsilon_class: EpsilonClass = Field(serialization_alias="class")
    capacity: MatrixCapacity
    superposition: Superposition
    hygiene: dict[str, Any]
    tokens: dict[str, Any]

    @classmethod
    def from_row(cls, row: MatrixRow) -> Self:
        return cls(
            role=row.role,
            tensor=row.tensor,
            dtype=row.dtype,
            digest=row.digest,
            rows=row.rows,
            dim=row.dim,
            rows_used=row.rows_used,
            rows_excluded={"zero": row.rows_zero, "nonfinite": row.rows_nonfinite},
            cosine=Cosine(
                pairs=row.pairs,
                mean=row.cosine_mean,
                std=row.cosine_std,
                mean_square=row.cosine_mean_square,
                mean_standard_error=row.cosine_mean_se,
                std_standard_error=row.cosine_std_se,
            ),
            epsilon=Epsilon(
                value=row.epsilon,
                standard_error=row.epsilon_se,
                random=row.epsilon_random,
                excess=row.epsilon_excess,
            ),
            epsilon_class=row.epsilon_class,
            capacity=MatrixCapacity(**row.details["capacity"], vocabulary_directions=row.vocabulary_directions),
            superposition=Superposition(
                norm=Norms(
                    mean=row.norm_mean, std=row.norm_std, min=row.norm_min, max=row.norm_max, median=row.norm_median
                ),
                represented_fraction=row.represented_fraction,
                mean_squared_overlap=row.cosine_mean_square,
                overlap_times_dim=row.overlap_times_dim,
                welch_floor=row.welch_floor,
                effective_rank=row.effective_rank,
                feature_dimensionality=row.feature_dimensionality,
                regime=row.regime,
                regime_basis=row.details["regime_basis"],
            ),
            hygiene=row.details["hygiene"],
            tokens=row.details["tokens"],
        )
