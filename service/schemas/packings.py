"""What a packing analysis found."""

from typing import Literal, Self

from pydantic import BaseModel, Field

from gramian.storage.tables import AnalysisRow
from service.schemas.capacity import Bounds


class CoherenceProof(BaseModel):
    """How the largest |cosine| of an explicit set is known, without a look at all pairs."""

    by: Literal["orthonormal_basis", "walsh_hadamard"]
    words: str
    m: int | None = Field(description="the vectors have 2^m entries that are not 0")
    terms: int | None = Field(description="coefficients of a quadratic form of the set")
    lines: int = Field(description="of the whole set, of which the first were taken")
    transforms: int = Field(description="Walsh–Hadamard transforms that were computed")


class PackingLinks(BaseModel):
    vectors: str = Field(description="the k × d float32 matrix as safetensors")


class PackingResult(BaseModel):
    """k unit vectors in d dimensions, and how close to parallel the closest two are."""

    epsilon: float = Field(description="ε*, the largest |cosine| of two of the vectors, over all pairs in float64")
    vectors: int
    dim: int
    method: Literal["optimized", "random", "code"]
    welch_bound: float = Field(description="no packing gets below")
    ratio_to_welch: float | None = Field(description="null where the bound is 0: no more vectors than dimensions")
    published_epsilon: float | None = Field(description="by arXiv:2606.02765 for as many vectors and dimensions")
    seed: int | None
    steps: int | None = Field(
        description="done, or sets drawn; fewer than asked for where the Welch bound was met, or ε* fell no more"
    )
    starts: int | None = Field(
        None, description="descents made, of which the best is told of here; fewer than asked for near the Welch bound"
    )
    history: list[tuple[int, float]] = Field(description="step and largest |cosine| of the vectors at it")
    proof: CoherenceProof | None = Field(description="of method `code`")
    bounds: Bounds = Field(description="what is proven about the number of vectors at this ε in so many dimensions")
    links: PackingLinks

    @classmethod
    def from_row(cls, row: AnalysisRow) -> Self:
        links = {"vectors": f"/v1/analyses/{row.id}/vectors.safetensors"}
        return cls.model_validate((row.answer or {}) | {"links": links})
