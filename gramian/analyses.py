"""What an analysis is: the question, its identity, and the states it passes through."""

import hashlib
import json
import secrets
import time
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from gramian.queues import Device

#: Changes whenever the same bytes and parameters would give other numbers; part of every result and dedupe key.
METHOD_VERSION = "2"


class Status(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)

#: One live or succeeded analysis answers a question; a failed or cancelled one does not stand in its way.
ANSWERING = (Status.QUEUED, Status.RUNNING, Status.SUCCEEDED)

# PostgreSQL text holds no NUL, and no name of ours needs a control character.
Text = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Frozen(BaseModel):
    """A value: immutable, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


class PairChoice(Frozen):
    """Look at the pairs themselves, for the histogram, quantiles and extremes; mean, ε and the rest need none."""

    mode: Literal["none", "sampled", "exact"] = Field(
        "none", description="`exact`: every pair, O(n²·d) time. `sampled`: a draw, or every pair where that is fewer"
    )
    bins: int = Field(400, ge=2, le=10_000, description="of the histogram over [−1, 1]")
    samples: int = Field(2_000_000, ge=100, le=100_000_000, description="pairs drawn, where they are sampled")
    seed: int = Field(0, ge=0, lt=2**63)


class EmbeddingSpec(Frozen):
    """Measure the vocabulary matrices of one model."""

    kind: Literal["embedding"] = "embedding"
    source: Source
    tensors: TensorChoice | None = None
    pairs: PairChoice | None = Field(None, description="left out: no pairs are looked at, as by mode `none`")
    device: Device | None = Field(None, description="Required device; unset: whichever a free worker has.")

    @field_validator("pairs")
    @classmethod
    def _looks_at_some(cls, pairs: PairChoice | None) -> PairChoice | None:
        """One spelling of "none", so that it is one question."""
        return None if pairs is None or pairs.mode == "none" else pairs


def dedupe_key(spec: EmbeddingSpec, identity: str) -> str:
    """Digest of the whole question: what is read (`identity`), how, and by which method."""
    unsaid = {name for name in ("device", "pairs") if getattr(spec, name) is None}
    question = spec.model_dump(mode="json", exclude={"source"} | unsaid)
    question |= {"source": spec.source.type, "identity": identity, "method_version": METHOD_VERSION}
    return hashlib.sha256(canonical_json(question).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """An opaque id that sorts by time: 48 bits of milliseconds, 80 of randomness, in base 32."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return f"{prefix}_" + "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
