"""The shapes of the HTTP contract, and how rows become them."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gramian.analyses import EmbeddingSpec, Status
from gramian.geometry.capacity import Form
from gramian.storage.tables import AnalysisRow, MatrixRow, UploadRow
from service.problems import Problem, problem_type

LabelName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
LabelValue = Annotated[str, StringConstraints(max_length=400, pattern=r"^[^\x00-\x1f\x7f]*$")]

Role = Literal["input_embedding", "output_embedding"]
EpsilonClass = Literal["low_epsilon", "intermediate", "high_epsilon"]


class AnalysisRequest(EmbeddingSpec):
    """A question: which weights, which matrices."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "embedding", "source": {"type": "hub", "model_id": "openai-community/gpt2"}},
                {"kind": "embedding", "source": {"type": "upload", "upload_id": "upl_01k0000000"}},
            ]
        }
    )

    kind: Literal["embedding"]
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict, max_length=32)

    def spec(self) -> EmbeddingSpec:
        return EmbeddingSpec(source=self.source, tensors=self.tensors)


class Warning(BaseModel):  # noqa: A001  (the contract's word)
    code: str
    message: str


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
    warnings: list[Warning]


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


class Tying(BaseModel):
    flag: bool | None
    finding: Literal["tied", "untied", "no_head", "reversed", "not_compared"]
    reason: str


class EmbeddingResult(BaseModel):
    matrices: list[MatrixResult]
    tying: Tying
    warnings: list[Warning]


class ModelReference(BaseModel):
    id: str
    revision: str | None
    commit: str | None


class Progress(BaseModel):
    stage: str | None
    fraction: float | None
    message: str | None


class Provenance(BaseModel):
    gramian_version: str | None
    method_version: str
    device: str | None
    torch: str | None
    seconds: dict[str, float] | None
    bytes_fetched: int | None


class Analysis(BaseModel):
    """One analysis: its state and, once it has succeeded, its numbers and what they rest on."""

    id: str
    kind: Literal["embedding"]
    status: Status
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deduplicated: bool = False
    callers: int = Field(1, description="how many asked for it and have not cancelled")
    labels: dict[str, str]
    spec: EmbeddingSpec
    model: ModelReference | None
    digest: str | None = Field(description="of the uploaded file, or of the matrices' bytes where they were read")
    progress: Progress
    error: Problem | None
    result: EmbeddingResult | None
    provenance: Provenance

    @classmethod
    def from_row(cls, row: AnalysisRow, *, deduplicated: bool = False) -> Self:
        result = None
        if row.status == Status.SUCCEEDED:
            result = EmbeddingResult(
                matrices=[MatrixResult.from_row(matrix) for matrix in row.matrices],
                tying=Tying(**(row.tying or {})),
                warnings=[Warning(**warning) for warning in row.warnings or ()],
            )
        return cls(
            id=row.id,
            kind=row.kind,
            status=Status(row.status),
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            deduplicated=deduplicated,
            callers=max(row.callers, 0),
            labels={label.name: label.value for label in row.labels},
            spec=EmbeddingSpec.model_validate(row.spec),
            model=ModelReference(id=row.model_id, revision=row.revision, commit=row.commit) if row.model_id else None,
            digest=row.digest,
            progress=Progress(stage=row.stage, fraction=row.fraction, message=row.message),
            error=_stored_problem(row),
            result=result,
            provenance=Provenance(
                gramian_version=row.gramian_version,
                method_version=row.method_version,
                device=row.device,
                torch=row.torch_version,
                seconds=row.seconds,
                bytes_fetched=row.bytes_fetched,
            ),
        )


def _stored_problem(row: AnalysisRow) -> Problem | None:
    if row.error is None:
        return None
    instance = f"/v1/analyses/{row.id}"
    return Problem(type=problem_type(row.error["code"]), status=422, instance=instance, **row.error)


class AnalysisList(BaseModel):
    items: list[Analysis]
    next_cursor: str | None


class TensorDescription(BaseModel):
    name: str
    dtype: str
    shape: list[int]
    sha256: str | None = Field(None, description="of the tensor's bytes, for what looks like a vocabulary matrix")


class Upload(BaseModel):
    """A stored file, and the tensors that its header lists."""

    id: str
    filename: str
    size: int
    sha256: str
    format: str
    tensors: list[TensorDescription]
    created_at: datetime

    @classmethod
    def from_row(cls, row: UploadRow) -> Self:
        return cls(
            id=row.id,
            filename=row.filename,
            size=row.size,
            sha256=row.sha256,
            format=row.format,
            tensors=[TensorDescription(**tensor) for tensor in row.tensors],
            created_at=row.created_at,
        )


class MatrixSummary(BaseModel):
    """The scalars of one matrix that tables and comparisons show."""

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
    def from_row(cls, row: MatrixRow, **more: Any) -> Self:
        interval = None
        if row.capacity_log10_low is not None and row.capacity_log10_high is not None:
            interval = (row.capacity_log10_low, row.capacity_log10_high)
        return cls(
            role=row.role,
            tensor=row.tensor,
            dtype=row.dtype,
            digest=row.digest,
            rows=row.rows,
            rows_used=row.rows_used,
            dim=row.dim,
            epsilon=row.epsilon,
            epsilon_standard_error=row.epsilon_se,
            epsilon_random=row.epsilon_random,
            excess=row.epsilon_excess,
            epsilon_class=row.epsilon_class,
            cosine_mean=row.cosine_mean,
            cosine_std=row.cosine_std,
            capacity_status=row.capacity_status,
            capacity_log10=row.capacity_log10,
            capacity_interval_log10=interval,
            mean_squared_overlap=row.cosine_mean_square,
            overlap_times_dim=row.overlap_times_dim,
            welch_floor=row.welch_floor,
            effective_rank=row.effective_rank,
            represented_fraction=row.represented_fraction,
            feature_dimensionality=row.feature_dimensionality,
            norm_median=row.norm_median,
            regime=row.regime,
            **more,
        )


class ModelSummary(MatrixSummary):
    """A model's latest numbers."""

    model_id: str
    revision: str | None
    commit: str | None
    analysis_id: str
    analysed_at: datetime
    method_version: str

    @classmethod
    def from_rows(cls, analysis: AnalysisRow, matrix: MatrixRow) -> Self:
        return cls.from_row(
            matrix,
            model_id=analysis.model_id,
            revision=analysis.revision,
            commit=analysis.commit,
            analysis_id=analysis.id,
            analysed_at=analysis.finished_at,
            method_version=analysis.method_version,
        )


class ModelList(BaseModel):
    items: list[ModelSummary]
    next_cursor: str | None


class ComparedItem(MatrixSummary):
    """One side of a comparison."""

    reference: str = Field(description="as it was asked for")
    analysis_id: str
    model: ModelReference | None
    method_version: str

    @classmethod
    def from_rows(cls, reference: str, analysis: AnalysisRow, matrix: MatrixRow) -> Self:
        model = None
        if analysis.model_id:
            model = ModelReference(id=analysis.model_id, revision=analysis.revision, commit=analysis.commit)
        return cls.from_row(
            matrix,
            reference=reference,
            analysis_id=analysis.id,
            model=model,
            method_version=analysis.method_version,
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


class Check(BaseModel):
    name: str
    ok: bool


class Readiness(BaseModel):
    status: Literal["ready", "not_ready"]
    checks: list[Check]


class Liveness(BaseModel):
    status: Literal["alive"]
    version: str
