"""The questions that can be asked: one spec a kind of analysis, told apart by `kind`.

A kind is a spec here, a function in `workers/jobs.py` and a result in `service/schemas/analyses.py`.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    model_validator,
)

from gramian.spec_base import Frozen, Question, RequiredDevice, Text
from gramian.toy_specs import ToyModelSpec


class PairChoice(Frozen):
    """Look at the pairs themselves, for the histogram, quantiles and extremes; mean, ε and the rest need none."""

    mode: Literal["none", "sampled", "exact"] = Field(
        "none", description="`exact`: every pair, O(n²·d) time. `sampled`: a draw, or every pair where that is fewer"
    )
    bins: int = Field(400, ge=2, le=10_000, description="of the histogram over [−1, 1]")
    samples: int = Field(2_000_000, ge=100, le=100_000_000, description="pairs drawn, where they are sampled")
    seed: int = Field(0, ge=0, lt=2**63)


# -- embedding --------------------------------------------------------------------------------------------------


class HubSource(Frozen):
    """A model repository on the Hub, pinned to a commit when the analysis is accepted."""

    type: Literal["hub"]
    model_id: Text = Field(examples=["openai-community/gpt2"])
    revision: Text = Field("main", description="Branch, tag or commit.")


class UploadSource(Frozen):
    """A file uploaded before through `POST /v1/uploads`."""

    type: Literal["upload"]
    upload_id: Text = Field(examples=["upl_01k0000000"])


class PathSource(Frozen):
    """A file or folder below the root that the operator configured (`GRAMIAN_PATH_ROOT`)."""

    type: Literal["path"]
    path: Text = Field(examples=["checkpoints/step-1000"])


Source = Annotated[HubSource | UploadSource | PathSource, Field(discriminator="type")]


class TensorChoice(Frozen):
    """Names that override the automatic choice; a side left out is not analysed when the other is named."""

    input: Text | None = None
    output: Text | None = None

    @model_validator(mode="after")
    def _names_something(self) -> "TensorChoice":
        if self.input is None and self.output is None:
            raise ValueError('name "input", "output" or both, or leave "tensors" out')
        return self


Unwanted = Literal["duplicates", "padding", "untrained"]


class RowChoice(Frozen):
    """Rows to leave out. Rows of zeros, and rows with NaN or infinity, are left out in any case."""

    exclude: tuple[Unwanted, ...] = Field(
        (),
        description="`duplicates`: rows equal to an earlier one. `padding`: rows beyond the tokenizer's last token. "
        "`untrained`: rows of tokens that training never met",
    )

    @field_validator("exclude")
    @classmethod
    def _as_a_set(cls, exclude: tuple[Unwanted, ...]) -> tuple[Unwanted, ...]:
        """One spelling, so that it is one question."""
        return tuple(sorted(set(exclude)))


class EmbeddingSpec(Question):
    """Measure the vocabulary matrices of one model."""

    method_version = "2"

    kind: Literal["embedding"] = "embedding"
    source: Source
    tensors: TensorChoice | None = None
    rows: RowChoice | None = Field(None, description="left out: every row that has a direction is measured")
    pairs: PairChoice | None = Field(None, description="left out: no pairs are looked at, as by mode `none`")
    token_names: bool = Field(
        False, description="give the rows named in the result their tokens, from the tokenizer beside the weights"
    )
    device: RequiredDevice = None

    @field_validator("rows")
    @classmethod
    def _leaves_some_out(cls, rows: RowChoice | None, info: ValidationInfo) -> RowChoice | None:
        """One spelling of "all rows", so that it is one question."""
        if rows is None or not rows.exclude:
            return None
        source = info.data.get("source")
        if "padding" in rows.exclude and isinstance(source, UploadSource):
            raise ValueError(
                "an uploaded file has no tokenizer beside it, and padding cannot be told from the numbers: "
                "analyse a folder or a Hub model, or leave 'padding' out"
            )
        return rows

    @field_validator("token_names")
    @classmethod
    def _has_a_tokenizer(cls, token_names: bool, info: ValidationInfo) -> bool:
        if token_names and isinstance(info.data.get("source"), UploadSource):
            raise ValueError("an uploaded file has no tokenizer beside it")
        return token_names

    @field_validator("pairs")
    @classmethod
    def _looks_at_some(cls, pairs: PairChoice | None) -> PairChoice | None:
        """One spelling of "none", so that it is one question."""
        return None if pairs is None or pairs.mode == "none" else pairs

    def parameters(self) -> dict[str, Any]:
        asked = super().parameters() | {"source": self.source.type}
        later = {"rows", "pairs", "token_names"}  # no part of a question that does not ask for them: its key stays
        return {name: value for name, value in asked.items() if value or name not in later}


# -- packing ----------------------------------------------------------------------------------------------------

MOST_NUMBERS = {"optimized": 2**27, "random": 2**27, "code": 2**30}  # k·d: some 5 copies in memory; 4 GiB on disk
MOST_STEPS = 100_000
MOST_VECTORS = {"optimized": 2**16, "random": 2**16, "code": 2**28}  # work grows with k²


class PackingSpec(Question):
    """Find k unit vectors in d dimensions of which no two are closer to parallel than can be helped."""

    method_version = "1"

    kind: Literal["packing"] = "packing"
    method: Literal["optimized", "random", "code"] = Field(
        "optimized",
        description="Descent from random directions; the best of random draws; or an explicit set of lines.",
    )
    vectors: int = Field(ge=2, examples=[2000], description="k, how many.")
    dim: int = Field(ge=1, le=2**20, examples=[128], description="d, in how many dimensions.")
    steps: int = Field(1000, ge=1, le=MOST_STEPS, description="Of the descent; or how many sets are drawn at random.")
    draws: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="The steps of method `random` by their own name; they go first."
    )
    restarts: int = Field(
        1, ge=1, le=100, description="Descents from other random directions, of which the best is kept."
    )
    seed: int = Field(0, ge=0, lt=2**53)
    device: RequiredDevice = None

    @field_validator("vectors")
    @classmethod
    def _few_enough(cls, vectors: int, info: ValidationInfo) -> int:
        most = MOST_VECTORS.get(info.data.get("method", ""))
        if most is not None and vectors > most:
            raise ValueError(f"at most {most:,} vectors are sought by method {info.data['method']!r}")
        return vectors

    @field_validator("dim")
    @classmethod
    def _small_enough(cls, dim: int, info: ValidationInfo) -> int:
        vectors, most = info.data.get("vectors"), MOST_NUMBERS.get(info.data.get("method", ""))
        if vectors is not None and most is not None and vectors * dim > most:
            raise ValueError(
                f"{vectors:,} vectors in {dim:,} dimensions are {vectors * dim:,} numbers; "
                f"method {info.data['method']!r} takes at most {most:,}"
            )
        return dim

    @field_validator("draws")
    @classmethod
    def _drawn(cls, draws: int | None, info: ValidationInfo) -> int | None:
        if draws is not None and info.data.get("method") != "random":
            raise ValueError("only method 'random' draws; the others take steps, or nothing")
        return draws

    @field_validator("restarts")
    @classmethod
    def _descends(cls, restarts: int, info: ValidationInfo) -> int:
        if restarts > 1 and info.data.get("method") != "optimized":
            raise ValueError("only method 'optimized' starts more than once")
        return restarts

    @property
    def rounds(self) -> int:
        """Steps of a descent, or sets drawn."""
        return self.draws or self.steps

    def parameters(self) -> dict[str, Any]:
        asked = super().parameters() | {"steps": self.rounds}
        irrelevant = {"draws", "restarts"} if self.method == "random" else {"draws"}
        if self.method == "code":
            irrelevant = {"draws", "steps", "restarts", "seed"}
        return {name: value for name, value in asked.items() if name not in irrelevant}


# -- all kinds --------------------------------------------------------------------------------------------------

Spec = EmbeddingSpec | PackingSpec | ToyModelSpec
Kind = Literal["embedding", "packing", "toy_model"]

_SPEC: TypeAdapter[Spec] = TypeAdapter(Annotated[Spec, Field(discriminator="kind")])


def parse_spec(stored: dict[str, Any]) -> Spec:
    """The spec that was stored as JSON."""
    return _SPEC.validate_python(stored)
