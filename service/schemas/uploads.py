"""Uploaded files."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field


class TensorDescription(BaseModel):
    name: str
    dtype: str
    shape: list[int]
    sha256: str | None = Field(None, description="of the tensor's bytes, for what looks like a vocabulary matrix")


class Upload(BaseModel):
    """A stored file, and the tensors that its header lists."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    filename: str
    size: int
    sha256: str
    format: str
    tensors: list[TensorDescription]
    created_at: datetime
