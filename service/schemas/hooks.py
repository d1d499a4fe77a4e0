"""What is answered to an incoming webhook."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, Field

from gramian.pushes import Told
from service.following import Followed


class FollowedPush(BaseModel):
    watch_id: str
    analysis_id: str | None = Field(description="null where it was deleted since")
    new: bool = Field(description="whether this message made it, or one before")


class HookAnswer(BaseModel):
    outcome: Literal["accepted", "known", "ignored"]
    reason: str = Field(description="what was understood, and why nothing was done where nothing was")
    analyses: list[FollowedPush]

    @classmethod
    def of(cls, told: Told, followed: Sequence[Followed]) -> Self:
        analyses = [FollowedPush(watch_id=f.watch_id, analysis_id=f.analysis_id, new=f.is_new) for f in followed]
        new = sum(f.is_new for f in followed)
        names = ", ".join(f"{push.model_id}@{push.branch}" for push in told.pushes)
        if new:
            return cls(outcome="accepted", reason=f"new commits of {names}", analyses=analyses)
        if followed:
            return cls(outcome="known", reason=f"this commit of {names} was told of before", analyses=analyses)
        return cls(outcome="ignored", reason=told.reason or f"no watch covers {names}", analyses=[])
