"""Who did what: noted in the transaction that does it, so that nothing happens unnoted and nothing is noted in vain."""

from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Index, String, delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from gramian.analyses import new_id
from gramian.storage.paging import Order, Page, fetch_page
from gramian.storage.tables import Base, ProjectOwned

Action = Literal[
    "analysis.submitted",
    "analysis.cancelled",
    "analysis.deleted",
    "upload.created",
    "upload.deleted",
    "key.created",
    "key.rotated",
    "key.revoked",
    "project.created",
    "webhook_endpoint.created",
    "webhook_endpoint.changed",
    "webhook_endpoint.rotated",
    "webhook_endpoint.deleted",
    "webhook_endpoint.pinged",
    "webhook_endpoint.replayed",
    "delivery.redelivered",
    "watch.created",
    "watch.changed",
    "watch.deleted",
]

#: Actors that are no keys.
WITHOUT_KEY, COMMAND_LINE, HOOK, RETENTION = "without key", "command line", "webhook", "retention"


class AuditRow(ProjectOwned, Base):
    """One thing that somebody did to something. Rows are added, and after a time forgotten; nothing changes them."""

    __tablename__ = "audit_entries"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(40))  # a key's id, or one of the words above
    action: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(64))  # an id
    details: Mapped[dict[str, Any]]

    __table_args__ = (
        Index("ix_audit_entries_at", "project_id", "at", "id"),
        Index("ix_audit_entries_subject", "project_id", "subject"),
    )


class AuditRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def note(self, action: Action, subject: str, *, project_id: str | None = None, **details: Any) -> None:
        """Write down what the unit of work's actor does, in its project or the one named."""
        self.session.add(
            AuditRow(
                id=new_id("aud"),
                project_id=project_id,
                at=datetime.now(UTC),
                actor=self.session.info["actor"],
                action=action,
                subject=subject,
                details=details,
            )
        )

    def search(
        self, *, action: str | None, subject: str | None, actor: str | None, cursor: str | None, limit: int
    ) -> Page:
        """What was done, the latest first."""
        query = select(AuditRow)
        for column, wanted in ((AuditRow.action, action), (AuditRow.subject, subject), (AuditRow.actor, actor)):
            if wanted:
                query = query.where(column == wanted)
        order = Order("-at", AuditRow.at, AuditRow.id)
        return fetch_page(self.session, query, order=order, cursor=cursor, limit=limit)

    def forget(self, *, before: datetime) -> None:
        self.session.execute(delete(AuditRow).where(AuditRow.at < before))
