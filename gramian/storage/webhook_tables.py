"""The tables of outgoing webhooks: who is told of what, and what became of it."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from gramian.storage.tables import Base, ProjectOwned


class EndpointStatus(StrEnum):
    ENABLED = "enabled"
    PAUSED = "paused"  # it failed for days: what it misses is held
    DISABLED = "disabled"  # its owner wants nothing, or it has answered 410


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    HELD = "held"  # until its endpoint is replayed


class EndpointRow(ProjectOwned, Base):
    """A receiver of webhooks, and the secrets that sign what it is sent, sealed.

    The one without a URL stands for all callbacks of its project: it has their secret and their log.
    """

    __tablename__ = "webhook_endpoints"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    url: Mapped[str | None] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    events: Mapped[list[Any]]
    status: Mapped[str] = mapped_column(String(10))
    reason: Mapped[str | None] = mapped_column(Text)  # why it gets nothing
    secret: Mapped[str] = mapped_column(Text)
    old_secret: Mapped[str | None] = mapped_column(Text)
    old_secret_until: Mapped[datetime | None]
    created_at: Mapped[datetime]
    failing_since: Mapped[datetime | None]  # the first failed attempt since the last that got through

    __table_args__ = (
        Index("ix_webhook_endpoints_created_at", "project_id", "created_at", "id"),
        Index(
            "uq_webhook_endpoints_callbacks",
            "project_id",
            unique=True,
            postgresql_where=text("url IS NULL"),
            sqlite_where=text("url IS NULL"),
        ),
    )


class CallbackRow(Base):
    """Where a caller wants to be told of the end of the analysis that it asked for."""

    __tablename__ = "analysis_callbacks"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    url: Mapped[str] = mapped_column(String(2048), primary_key=True)
    events: Mapped[list[Any]]


class DeliveryRow(ProjectOwned, Base):
    """One message to one receiver, until it got through or was given up."""

    __tablename__ = "webhook_deliveries"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    endpoint_id: Mapped[str] = mapped_column(ForeignKey("webhook_endpoints.id", ondelete="CASCADE"))
    url: Mapped[str | None] = mapped_column(Text)  # a callback's; others go where their endpoint is now
    message_id: Mapped[str] = mapped_column(String(40))  # the same for all receivers and attempts
    type: Mapped[str] = mapped_column(String(40))
    payload: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(10))
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    reason: Mapped[str | None] = mapped_column(Text)  # why it is not tried any more
    attempts: Mapped[int] = mapped_column(Integer, default=0)  # since it was made
    tries: Mapped[int] = mapped_column(Integer, default=0)  # since it was last begun: its place in the schedule

    # dispatch, as of analyses: seconds by the database's clock
    due_at: Mapped[float | None]
    lease_until: Mapped[float | None]
    fence: Mapped[int] = mapped_column(default=0)

    endpoint: Mapped[EndpointRow] = relationship(lazy="joined", innerjoin=True)
    log: Mapped[list["AttemptRow"]] = relationship(
        lazy="select", cascade="all, delete-orphan", passive_deletes=True, order_by="AttemptRow.number"
    )

    __table_args__ = (
        Index("ix_webhook_deliveries_created_at", "endpoint_id", "created_at", "id"),
        Index(
            "ix_webhook_deliveries_due_at",
            "due_at",
            postgresql_where=text("status = 'pending'"),
            sqlite_where=text("status = 'pending'"),
        ),
    )


class AttemptRow(Base):
    """One request to a receiver, and what it answered."""

    __tablename__ = "webhook_attempts"

    delivery_id: Mapped[str] = mapped_column(ForeignKey("webhook_deliveries.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[datetime]
    seconds: Mapped[float]
    url: Mapped[str] = mapped_column(Text)
    request_headers: Mapped[dict[str, Any]]
    response_status: Mapped[int | None]
    response_body: Mapped[str | None] = mapped_column(Text)  # its beginning
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
