"""An analysis: the question as it is asked, and the resource."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gramian.analyses import Status
from gramian.errors import InvalidParameter
from gramian.queues import Priority
from gramian.specs import EmbeddingSpec, Kind, PackingSpec, Spec, parse_spec
from gramian.storage.tables import AnalysisRow
from gramian.toy_specs import GRID_SETTINGS, ToyModelSpec
from service.problems import Problem, problem_type
from service.schemas.common import Caveat, ModelReference
from service.schemas.matrices import MatrixResult, Quantile
from service.schemas.packings import PackingResult
from service.schemas.toy_models import ToyModelResult
from service.schemas.webhooks import Callback

LabelName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
LabelValue = Annotated[str, StringConstraints(max_length=400, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Request(BaseModel):
    """What is said beside the question."""

    priority: Priority = Field("interactive", description="`batch` waits for everything `interactive`")
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict, max_length=32)

    callback: Callback | None = Field(None, description="whom to tell of the end, once, beside all endpoints")

    def spec(self) -> Spec:
        return parse_spec(self.model_dump(exclude=set(Request.model_fields)))


class EmbeddingRequest(EmbeddingSpec, Request):
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


class PackingRequest(PackingSpec, Request):
    """A question: how many vectors, in how many dimensions, found how."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "packing", "vectors": 2000, "dim": 128, "steps": 1000, "seed": 0, "method": "optimized"},
                {"kind": "packing", "vectors": 16384, "dim": 128, "method": "code"},
            ]
        }
    )

    kind: Literal["packing"]


class ToyModelRequest(ToyModelSpec, Request):
    """A question: which toy models to train, as a grid or as a figure of the paper."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "kind": "toy_model",
                    "features": 1000,
                    "dims": [12, 24, 48],
                    "weight_decay": [-1.0, 1.0],
                    "frequencies": {"law": "power", "exponent": [1.0, 1.5]},
                    "batch": 512,
                    "steps": 3000,
                    "bias_std": 0.5,
                    "replicates": 2,
                },
                {"kind": "toy_model", "preset": "fig5", "size": "reduced"},
            ]
        }
    )

    kind: Literal["toy_model"]

    def spec(self) -> Spec:
        beside = self.model_fields_set & GRID_SETTINGS
        if self.preset is not None and beside:
            name = min(beside)
            raise InvalidParameter(f"/{name}", f"preset {self.preset!r} brings its own {name}", hint="leave it out")
        return super().spec()


AnalysisRequest = EmbeddingRequest | PackingRequest | ToyModelRequest
AnalysisBody = Annotated[AnalysisRequest, Body(discriminator="kind")]


class Tying(BaseModel):
    flag: bool | None
    finding: Literal["tied", "untied", "no_head", "reversed", "not_compared"]
    reason: str


class Alignment(BaseModel):
    """The cosine of each token's vectors in the input and the output embedding."""

    tokens: int = Field(description="that have a direction in both")
    mean: float
    std: float
    quantiles: list[Quantile]


class EmbeddingResult(BaseModel):
    matrices: list[MatrixResult]
    tying: Tying
    alignment: Alignment | None = Field(description="where both embeddings were analysed and have the same rows")
    warnings: list[Caveat]

    @classmethod
    def from_row(cls, row: AnalysisRow) -> Self:
        return cls(
            matrices=[MatrixResult.from_row(matrix) for matrix in row.matrices],
            tying=Tying(**(row.tying or {})),
            alignment=_alignment(row),
            warnings=[Caveat(**warning) for warning in row.warnings or ()],
        )


Result = EmbeddingResult | PackingResult | ToyModelResult

RESULTS: Mapping[str, Callable[[AnalysisRow], Result]] = {
    "embedding": EmbeddingResult.from_row,
    "packing": PackingResult.from_row,
    "toy_model": ToyModelResult.from_row,
}


class Progress(BaseModel):
    """How far it is: in the whole, and in the units of its stage."""

    model_config = ConfigDict(from_attributes=True)

    stage: str | None
    fraction: float | None
    message: str | None
    done: int | None = Field(None, description="of `total`, in `unit`")
    total: int | None = None
    unit: str | None = None
    seconds_left: float | None = Field(None, description="estimated from the pace so far")


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
    kind: Kind
    status: Status
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deduplicated: bool = False
    priority: Priority
    callers: int = Field(1, description="how many asked for it and have not cancelled")
    labels: dict[str, str]
    spec: Annotated[Spec, Field(discriminator="kind")]
    model: ModelReference | None
    digest: str | None = Field(
        description="of the uploaded file, of the matrices' bytes where they were read, or of the file made"
    )
    progress: Progress
    error: Problem | None
    result: Result | None
    provenance: Provenance

    @classmethod
    def from_row(cls, row: AnalysisRow, *, deduplicated: bool = False) -> Self:
        return cls(
            id=row.id,
            kind=row.kind,
            status=Status(row.status),
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            deduplicated=deduplicated,
            priority=row.priority,
            callers=max(row.callers, 0),
            labels={label.name: label.value for label in row.labels},
            spec=parse_spec(row.spec),
            model=ModelReference(id=row.model_id, revision=row.revision, commit=row.commit) if row.model_id else None,
            digest=row.digest,
            progress=Progress.model_validate(row),
            error=_stored_problem(row),
            result=RESULTS[row.kind](row) if row.status == Status.SUCCEEDED else None,
            provenance=Provenance(
                gramian_version=row.gramian_version,
                method_version=row.method_version,
                device=row.device,
                torch=row.torch_version,
                seconds=row.seconds,
                bytes_fetched=row.bytes_fetched,
            ),
        )


def _alignment(row: AnalysisRow) -> Alignment | None:
    if row.alignment is None:
        return None
    quantiles = [Quantile(level=level, cosine=cosine) for level, cosine in row.alignment["quantiles"]]
    return Alignment(**(row.alignment | {"quantiles": quantiles}))


def _stored_problem(row: AnalysisRow) -> Problem | None:
    if row.error is None:
        return None
    instance = f"/v1/analyses/{row.id}"
    return Problem(type=problem_type(row.error["code"]), status=422, instance=instance, **row.error)


class AnalysisList(BaseModel):
    items: list[Analysis]
    next_cursor: str | None
