"""The registry: one row a model, seen through its latest succeeded analysis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import Session

from gramian.analyses import Status
from gramian.errors import NotFound
from gramian.storage.paging import Column, Order, Page, fetch_page
from gramian.storage.tables import AnalysisRow, MatrixRow

SORTS: dict[str, Column] = {
    "model_id": AnalysisRow.model_id,
    "analysed_at": AnalysisRow.finished_at,
    "capacity": MatrixRow.capacity_log10,
    "epsilon": MatrixRow.epsilon,
    "excess": MatrixRow.epsilon_excess,
    "dim": MatrixRow.dim,
    "rows": MatrixRow.rows,
    "effective_rank": MatrixRow.effective_rank,
    "overlap_times_dim": MatrixRow.overlap_times_dim,
    "represented_fraction": MatrixRow.represented_fraction,
}


@dataclass(frozen=True)
class ModelFilter:
    """Conditions on a model's latest numbers."""

    epsilon_class: str | None = None
    min_dim: int | None = None
    max_dim: int | None = None
    text: str | None = None

    def conditions(self) -> Sequence[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.epsilon_class:
            found.append(MatrixRow.epsilon_class == self.epsilon_class)
        if self.min_dim is not None:
            found.append(MatrixRow.dim >= self.min_dim)
        if self.max_dim is not None:
            found.append(MatrixRow.dim <= self.max_dim)
        if self.text:
            found.append(AnalysisRow.model_id.icontains(self.text, autoescape=True))
        return found


class ModelRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def search(self, wanted: ModelFilter, *, sort: str, cursor: str | None, limit: int) -> Page:
        """Pairs of the latest analysis and its first matrix."""
        recency = (AnalysisRow.finished_at.desc(), AnalysisRow.id.desc())
        ranked = (
            select(
                AnalysisRow.id,
                func.row_number().over(partition_by=AnalysisRow.model_id, order_by=recency).label("age"),
            )
            .where(AnalysisRow.status == Status.SUCCEEDED, AnalysisRow.model_id.is_not(None))
            .subquery()
        )
        query = (
            select(AnalysisRow, MatrixRow)
            .join(ranked, and_(ranked.c.id == AnalysisRow.id, ranked.c.age == 1))
            .join(MatrixRow, and_(MatrixRow.analysis_id == AnalysisRow.id, MatrixRow.position == 0))
            .where(*wanted.conditions())
        )
        order = Order.parse(sort, SORTS, AnalysisRow.model_id)
        return fetch_page(self.session, query, order=order, cursor=cursor, limit=limit)

    def ids(self) -> Sequence[str]:
        """Of all models that were analysed."""
        analysed = and_(AnalysisRow.status == Status.SUCCEEDED, AnalysisRow.model_id.is_not(None))
        return [str(name) for name in self.session.scalars(select(AnalysisRow.model_id).where(analysed).distinct())]

    def history(
        self, model_id: str, *, role: str | None, revision: str | None, limit: int
    ) -> Sequence[tuple[AnalysisRow, MatrixRow]]:
        """The latest succeeded analyses of a model with one matrix of each, the newest first."""
        matrix = MatrixRow.role == role if role else MatrixRow.position == 0
        query = (
            select(AnalysisRow, MatrixRow)
            .join(MatrixRow, and_(MatrixRow.analysis_id == AnalysisRow.id, matrix))
            .where(AnalysisRow.model_id == model_id, AnalysisRow.status == Status.SUCCEEDED)
            .order_by(AnalysisRow.created_at.desc(), AnalysisRow.id.desc())
            .limit(limit)
        )
        if revision:
            query = query.where(AnalysisRow.revision == revision)
        return [(analysis, found) for analysis, found in self.session.execute(query)]

    def latest(self, model_id: str, revision: str | None) -> AnalysisRow:
        """The newest succeeded analysis of a model, at a branch, tag or (beginning of a) commit if one is named."""
        query: Select[Any] = (
            select(AnalysisRow)
            .where(AnalysisRow.model_id == model_id, AnalysisRow.status == Status.SUCCEEDED)
            .order_by(AnalysisRow.finished_at.desc(), AnalysisRow.id.desc())
            .limit(1)
        )
        if revision:
            query = query.where(
                or_(AnalysisRow.revision == revision, AnalysisRow.commit.startswith(revision, autoescape=True))
            )
        row: AnalysisRow | None = self.session.scalars(query).one_or_none()
        if row is None:
            name = f"{model_id}@{revision}" if revision else model_id
            raise NotFound("analysed model", name, hint="POST /v1/analyses with this model id, then compare")
        return row
