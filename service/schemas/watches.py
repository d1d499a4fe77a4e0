"""Watches: which models are followed, and what is worth telling."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from gramian.analyses import Status
from gramian.specs import RowChoice, TensorChoice
from gramian.storage.watch_tables import WatchedRevisionRow, WatchRow

Pattern = Annotated[
    str,
    StringConstraints(max_length=193, pattern=r"^[A-Za-z0-9*][A-Za-z0-9._*-]*(/[A-Za-z0-9*][A-Za-z0-9._*-]*)?$"),
    Field(description="a model id of the Hub; `*` stands for anything", examples=["org/model", "org/run-*"]),
]
Branch = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x20\x7f]+$")]
Shift = Annotated[
    float | None,
    Field(gt=0, le=4, description="tell of an ε that moved by so much or more, up or down; null: of none"),
]


def _leaves_some_out(rows: RowChoice | None) -> RowChoice | None:
    return rows if rows and rows.exclude else None


class WatchRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model_id: Pattern
    kind: Literal["embedding"] = "embedding"
    revision: Branch = Field("main", description="the branch that is followed")
    epsilon_shift: Shift = 0.01
    class_change: bool = Field(True, description="tell of a revision in another class")
    rows: Annotated[RowChoice | None, AfterValidator(_leaves_some_out)] = Field(None, description="as in an analysis")
    tensors: TensorChoice | None = Field(None, description="as in an analysis")

    def values(self) -> dict[str, Any]:
        """The columns of the watch."""
        asked = self.model_dump(mode="json", include={"rows", "tensors"}, exclude_none=True)
        return self.model_dump(include={"model_id", "kind", "revision", "epsilon_shift", "class_change"}) | {
            "question": asked
        }


class WatchChange(BaseModel):
    """What is left out stays as it is. Another model or question is another watch."""

    model_config = ConfigDict(extra="forbid")

    epsilon_shift: Shift = None
    class_change: bool = True


class Watch(BaseModel):
    id: str
    model_id: str
    kind: Literal["embedding"]
    revision: str
    epsilon_shift: float | None
    class_change: bool
    rows: RowChoice | None
    tensors: TensorChoice | None
    created_at: datetime

    @classmethod
    def from_row(cls, row: WatchRow) -> Self:
        columns = {name: getattr(row, name) for name in cls.model_fields if name not in ("rows", "tensors")}
        return cls(**columns, rows=row.question.get("rows"), tensors=row.question.get("tensors"))


class WatchList(BaseModel):
    items: list[Watch]


class WatchedRevision(BaseModel):
    """A commit that the watch met."""

    model_id: str
    commit: str
    previous_commit: str | None = Field(description="the branch's commit before, where that was told")
    analysis_id: str | None = Field(description="null where it was deleted")
    status: Status | None
    created_at: datetime
    compared_at: datetime | None = Field(
        description="when it was set beside the one before; null: its analysis, or one before it, has not ended"
    )

    @classmethod
    def from_row(cls, row: WatchedRevisionRow) -> Self:
        return cls(
            model_id=row.model_id,
            commit=row.commit,
            previous_commit=row.previous,
            analysis_id=row.analysis_id,
            status=Status(row.analysis.status) if row.analysis else None,
            created_at=row.created_at,
            compared_at=row.settled_at,
        )


class WatchedRevisionList(BaseModel):
    items: list[WatchedRevision]
    next_cursor: str | None

    @classmethod
    def from_rows(cls, rows: Sequence[WatchedRevisionRow], next_cursor: str | None) -> Self:
        return cls(items=[WatchedRevision.from_row(row) for row in rows], next_cursor=next_cursor)
