"""What several resources have in common."""

from typing import Literal

from pydantic import BaseModel

Role = Literal["input_embedding", "output_embedding"]
EpsilonClass = Literal["low_epsilon", "intermediate", "high_epsilon"]


class Caveat(BaseModel):
    code: str
    message: str


class ModelReference(BaseModel):
    id: str
    revision: str | None
    commit: str | None
