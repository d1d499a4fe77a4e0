"""Is it alive, is it ready."""

from typing import Literal

from pydantic import BaseModel


class Check(BaseModel):
    name: str
    ok: bool


class Readiness(BaseModel):
    status: Literal["ready", "not_ready"]
    checks: list[Check]


class Liveness(BaseModel):
    status: Literal["alive"]
    version: str
