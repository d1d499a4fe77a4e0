"""One analysed matrix, whole as a result shows it."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from gramian.storage.tables import MatrixRow
from service.schemas.capacity import MatrixCapacity
from service.schemas.common import EpsilonClass, Role


class Quantile(BaseModel):
    level: float = Field(description="share of the pairs")
    cosine: float = Field(description="that so large a share does not exceed")


class Cosine(BaseModel):
    """Moments over all unordered pairs of used rows, exact in any mode; the rest of the pairs looked at, if any."""

    pairs: int
    mean: float
    std: float
    mean_square: float
    mean_standard_error: float | None
    std_standard_error: float | None
    mode: Literal["moments", "sampled", "exact"] = Field(
        description="`moments`: no pairs were asked for, what needs them is null"
    )
    pairs_seen: int | None = Field(description="looked at one by one: all of them, or a draw with replacement")
    min: float | None
    max: float | None = Field(description="over all pairs, the larger of this and −min is the mutual coherence")
    mean_abs: float | None
    mean_abs_standard_error: float | None = Field(description="of a draw")
    quantiles: list[Quantile] | None
    resolution: float | None = Field(description="quantiles are right within this")
    band: float | None = Field(
        description="of a draw: its cumulative distribution is nowhere further from that of all pairs, at 95 % (DKW)"
    )
    histogram: str | None = Field(description="where the histogram is")

    @classmethod
    def from_row(cls, row: MatrixRow) -> Self:
        seen: dict[str, Any] = row.details.get("pairs") or {}
        quantiles = [Quantile(level=level, cosine=cosine) for level, cosine in seen.get("quantiles", ())]
        return cls(
            pairs=row.pairs,
            mean=row.cosine_mean,
            std=row.cosine_std,
            mean_square=row.cosine_mean_square,
            mean_standard_error=row.cosine_mean_se,
            std_standard_error=row.cosine_std_se,
            mode=row.pair_mode or "moments",
            pairs_seen=row.pairs_seen,
            min=row.cosine_min,
            max=row.cosine_max,
            mean_abs=row.cosine_mean_abs,
            mean_abs_standard_error=seen.get("mean_abs_se"),
            quantiles=quantiles or None,
            resolution=seen.get("resolution"),
            band=seen.get("band"),
            histogram=f"/v1/analyses/{row.analysis_id}/histogram?role={row.role}" if seen else None,
        )


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


class Histogram(BaseModel):
    """Pairs by their cosine: `counts[i]` of them from `edges[i]` to before `edges[i + 1]`; the last bin includes 1."""

    role: Role
    tensor: str
    edges: list[float]
    counts: list[int]
    pairs: int = Field(description="looked at, the sum of the counts")
    mode: Literal["sampled", "exact"]
    mean: float = Field(description="of all pairs, exact")
    epsilon: float = Field(description="of all pairs, exact")
    random: float = Field(description="ε of random rows, 2/√d")
    band: float | None = Field(description="of a draw: see the result")

    @classmethod
    def from_row(cls, row: MatrixRow) -> Self:
        counts: list[int] = row.details["pairs"]["counts"]
        bins = len(counts)
        return cls(
            role=row.role,
            tensor=row.tensor,
            edges=[2 * edge / bins - 1 for edge in range(bins + 1)],
            counts=counts,
            pairs=row.pairs_seen,
            mode=row.pair_mode,
            mean=row.cosine_mean,
            epsilon=row.epsilon,
            random=row.epsilon_random,
            band=row.details["pairs"]["band"],
        )


class MatrixResult(BaseModel):
    role: Role
    tensor: str
    dtype: str
    digest: str = Field(description="SHA-256 of the tensor's bytes, row-major and little-endian")
    rows: int
    dim: int
    rows_used: int
    rows_excluded: dict[str, int] = Field(description="by the reason; those asked for beside `zero` and `nonfinite`")
    cosine: Cosine
    epsilon: Epsilon
    epsilon_class: EpsilonClass = Field(serialization_alias="class")
    capacity: MatrixCapacity
    superposition: Superposition
    hygiene: dict[str, Any]
    tokens: dict[str, Any] = Field(
        description="rows by their mean squared cosine, and those that have most of a dimension to themselves "
        "(`primary`); `token` is null unless `token_names` was asked for, or the tokenizer had to be read anyway"
    )

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
            rows_excluded={"zero": row.rows_zero, "nonfinite": row.rows_nonfinite}
            | row.details.get("rows_excluded", {}),
            cosine=Cosine.from_row(row),
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
