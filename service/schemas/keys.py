"""Access keys as they are asked for and shown."""

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gramian.keys import KeySecret, Scope
from gramian.storage.tables import KeyRow
from service.schemas.projects import ProjectName

KeyName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


Most = Annotated[int, Field(ge=1, le=2**53)] | None


class KeyLimits(BaseModel):
    """Of one key; what is null is as the operator set it for all."""

    model_config = ConfigDict(extra="forbid")

    requests_per_minute: Most = None
    queued_jobs: Most = Field(None, description="analyses that have not ended")
    upload_bytes_per_day: Most = Field(None, description="within the last 24 hours")

    def given(self) -> dict[str, int]:
        return self.model_dump(exclude_none=True)


class KeyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: KeyName = Field(examples=["ci"])
    scope: Scope = Field(Scope.READ, description="each includes those before it; an operator looks after all projects")
    expires_in_days: Annotated[float, Field(gt=0, le=3650)] | None = Field(None, description="unset: never")
    project: ProjectName | None = Field(None, description="its name, for operators; unset: your own")
    limits: KeyLimits | None = Field(None, description="its own, for operators to give")


class Rotation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    overlap_hours: float = Field(24, ge=0, le=24 * 90, description="how long the old key still lives")


class Key(BaseModel):
    id: str
    name: str
    scope: Scope
    shown: str = Field(description="the key's beginning")
    live: bool
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="to the minute")
    revoked_at: datetime | None
    limits: KeyLimits

    @classmethod
    def from_row(cls, row: KeyRow) -> Self:
        return cls(**_fields(row))


class NewKey(Key):
    key: str = Field(description="the secret, shown once", examples=["gr_…"])

    @classmethod
    def from_pair(cls, row: KeyRow, secret: KeySecret) -> Self:
        return cls(key=secret.text, **_fields(row))


class KeyList(BaseModel):
    items: list[Key]


def _fields(row: KeyRow) -> dict[str, object]:
    names = ("id", "name", "scope", "shown", "created_at", "expires_at", "last_used_at", "revoked_at")
    return {name: getattr(row, name) for name in names} | {
        "live": row.is_live(datetime.now(UTC)),
        "limits": KeyLimits(**row.limits),
    }
