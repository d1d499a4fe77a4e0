"""Who did what, as it is shown."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class AuditEntry(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    at: datetime
    actor: str = Field(description="a key's id; or `without key`, `command line`, `webhook`, `retention`")
    action: str = Field(examples=["analysis.submitted"])
    subject: str = Field(description="the id of what was made, changed or deleted")
    details: dict[str, Any]


class AuditLog(BaseModel):
    items: list[AuditEntry]
    next_cursor: str | None
