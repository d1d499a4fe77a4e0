"""The tables of watches: which models are followed, and the revisions that came."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from gramian.storage.tables import AnalysisRow, Base, ProjectOwned


class WatchRow(ProjectOwned, Base):
    """A model, or a pattern of models, whose new revisions are analysed and compared."""

    __tablename__ = "watches"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    model_id: Mapped[str] = mapped_column(Text)  # `*` stands for anything
    revision: Mapped[str] = mapped_column(Text)  # the branch
    kind: Mapped[str] = mapped_column(String(20))
    question: Mapped[dict[str, Any]]  # what is asked of each revision, beside its source
    epsilon_shift: Mapped[float | None]
    class_change: Mapped[bool]
    created_at: Mapped[datetime]

    __table_args__ = (Index("ix_watches_created_at", "project_id", "created_at", "id"),)


class WatchedRevisionRow(Base):
    """A commit that a watch met. Its id sorts by the time of its coming."""

    __tablename__ = "watched_revisions"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    watch_id: Mapped[str] = mapped_column(ForeignKey("watches.id", ondelete="CASCADE"))
    model_id: Mapped[str] = mapped_column(Text)
    commit: Mapped[str] = mapped_column(String(64))
    previous: Mapped[str | None] = mapped_column(String(64))  # the branch's commit before, where that was told
    analysis_id: Mapped[str | None] = mapped_column(ForeignKey("analyses.id", ondelete="SET NULL"), index=True)
    created_at: Mapped[datetime]
    settled_at: Mapped[datetime | None]  # since when it is compared, or known that it cannot be

    watch: Mapped[WatchRow] = relationship()
    analysis: Mapped[AnalysisRow | None] = relationship()

    __table_args__ = (
        Index("uq_watched_revisions_commit", "watch_id", "model_id", "commit", unique=True),
        Index("ix_watched_revisions_watch_id_model_id_id", "watch_id", "model_id", "id"),
    )
