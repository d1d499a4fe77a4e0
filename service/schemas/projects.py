"""Projects, and what a caller may do in one."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gramian.keys import Scope

ProjectName = Annotated[str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]


class ProjectRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: ProjectName = Field(description="small letters, digits and hyphens", examples=["interpretability"])


class Project(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    created_at: datetime


class ProjectList(BaseModel):
    items: list[Project]


class Access(BaseModel):
    """What a caller may do, and where."""

    project: str = Field(description="its name")
    scope: Scope = Field(description="each scope includes those before it")
    key_id: str | None = Field(description="null where no key is asked for")
