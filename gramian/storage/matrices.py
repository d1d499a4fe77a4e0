"""Measured matrices across analyses, for fits over many models."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from gramian.analyses import Status
from gramian.storage.models import ModelFilter
from gramian.storage.tables import AnalysisRow, LabelRow, MatrixRow


@dataclass(frozen=True)
class MatrixFilter:
    """Conditions on succeeded analyses, and on at least one of their matrices."""

    numbers: ModelFilter
    model_id: str | None = None
    label: tuple[str, str | None] | None = None  # a name, and a value if it must have that


class MatrixRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def find(self, wanted: MatrixFilter, *, limit: int) -> Sequence[AnalysisRow]:
        """Succeeded analyses with a matrix that meets the conditions, newest first, `limit` at most."""
        matching = select(MatrixRow.analysis_id).join(AnalysisRow, MatrixRow.analysis_id == AnalysisRow.id)
        matching = matching.where(*wanted.numbers.conditions())
        query = select(AnalysisRow).where(AnalysisRow.status == Status.SUCCEEDED, AnalysisRow.id.in_(matching))
        if wanted.model_id:
            query = query.where(AnalysisRow.model_id == wanted.model_id)
        if wanted.label:
            name, value = wanted.label
            has = LabelRow.name == name if value is None else and_(LabelRow.name == name, LabelRow.value == value)
            query = query.where(AnalysisRow.labels.any(has))
        newest = query.order_by(AnalysisRow.finished_at.desc(), AnalysisRow.id.desc())
        return self.session.scalars(newest.limit(limit)).all()

    def of(self, ids: Sequence[str]) -> Sequence[AnalysisRow]:
        """The analyses of these ids that there are, in any state."""
        return self.session.scalars(select(AnalysisRow).where(AnalysisRow.id.in_(ids))).all()
