"""Sending webhooks in SQL: what is due is claimed under a fence, each attempt is written down, and decides the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session

from gramian.storage.engine import database_epoch
from gramian.storage.webhook_tables import AttemptRow, DeliveryRow, DeliveryStatus, EndpointRow, EndpointStatus
from gramian.webhooks import Verdict

MOST_AT_ONCE = 4  # to one endpoint, so that a slow receiver does not keep the others waiting


@dataclass(frozen=True)
class Parcel:
    """The right to make the next attempt of a delivery, and what is needed to do so."""

    id: str
    fence: int
    endpoint_id: str
    url: str
    message_id: str
    type: str
    payload: str
    tries: int  # failed attempts so far, since it was last begun
    sealed_secrets: tuple[str, ...]  # the current one first


@dataclass(frozen=True)
class Attempt:
    """What was sent, and what came back."""

    at: datetime
    seconds: float
    url: str
    request_headers: dict[str, str]
    response_status: int | None = None
    response_body: str | None = None
    error: dict[str, str] | None = None


class DeliveryRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def claim(self, *, lease_seconds: float) -> Parcel | None:
        """Take what is longest due, of an endpoint that is not busy."""
        busy = (
            select(DeliveryRow.endpoint_id)
            .where(_is_pending(), DeliveryRow.lease_until >= database_epoch())
            .group_by(DeliveryRow.endpoint_id)
            .having(func.count() >= MOST_AT_ONCE)
        )
        due = (
            select(DeliveryRow.id)
            .where(
                _is_pending(), DeliveryRow.due_at <= database_epoch(), _is_free(), DeliveryRow.endpoint_id.not_in(busy)
            )
            .order_by(DeliveryRow.due_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        claimed = self.session.scalar(
            update(DeliveryRow)
            .where(DeliveryRow.id == due.scalar_subquery())
            .values(lease_until=database_epoch() + lease_seconds, fence=DeliveryRow.fence + 1)
            .returning(DeliveryRow.id)
            .execution_options(synchronize_session=False)
        )
        return self._parcel(self.session.get_one(DeliveryRow, claimed)) if claimed else None

    def _parcel(self, row: DeliveryRow) -> Parcel:
        endpoint, now = row.endpoint, datetime.now(UTC)
        overlaps = endpoint.old_secret_until is not None and now < endpoint.old_secret_until
        return Parcel(
            id=row.id,
            fence=row.fence,
            endpoint_id=endpoint.id,
            url=row.url or endpoint.url or "",
            message_id=row.message_id,
            type=row.type,
            payload=row.payload,
            tries=row.tries,
            sealed_secrets=(endpoint.secret, *((endpoint.old_secret,) if overlaps and endpoint.old_secret else ())),
        )

    def has_due(self) -> bool:
        """Whether a claim may find something: asked often, by a transaction that writes nothing."""
        query = select(DeliveryRow.id).where(_is_pending(), DeliveryRow.due_at <= database_epoch(), _is_free()).limit(1)
        return self.session.scalar(query) is not None

    def conclude(
        self, parcel: Parcel, attempt: Attempt, verdict: Verdict, *, next_seconds: float | None, pause_days: float
    ) -> bool:
        """Write down an attempt and what follows from it; False, and nothing is written, if it is another's by now.

        `next_seconds` until the next attempt, None if there is none.
        """
        match verdict:
            case Verdict.DELIVERED:
                change = _ended(DeliveryStatus.SUCCEEDED)
            case Verdict.GONE:
                change = _ended(DeliveryStatus.FAILED, "the receiver answered 410: it wants no more")
            case _ if next_seconds is None:
                change = _ended(DeliveryStatus.FAILED, "every attempt failed")
            case _:
                change = {"tries": DeliveryRow.tries + 1, "due_at": database_epoch() + next_seconds}
        endpoint = self._locked(parcel.endpoint_id)
        number = self.session.scalar(
            update(DeliveryRow)
            .where(DeliveryRow.id == parcel.id, DeliveryRow.fence == parcel.fence, _is_pending())
            .values(attempts=DeliveryRow.attempts + 1, lease_until=None, **change)
            .returning(DeliveryRow.attempts)
            .execution_options(synchronize_session=False)
        )
        if number is None:
            return False
        self.session.add(AttemptRow(delivery_id=parcel.id, number=number, **vars(attempt)))
        if endpoint is not None and endpoint.status == EndpointStatus.ENABLED:
            self._judge_endpoint(endpoint, verdict, at=attempt.at, pause_days=pause_days)
        return True

    def _locked(self, endpoint_id: str) -> EndpointRow | None:
        """The endpoint, locked before any of its deliveries, as its deletion does; None for callbacks, or if gone."""
        query = select(EndpointRow).where(EndpointRow.id == endpoint_id, EndpointRow.url.is_not(None))
        return self.session.scalars(query.with_for_update(key_share=True)).one_or_none()

    def _judge_endpoint(self, endpoint: EndpointRow, verdict: Verdict, *, at: datetime, pause_days: float) -> None:
        """What the attempt says of its endpoint; of callbacks it says nothing, as each has an address of its own."""
        if verdict == Verdict.DELIVERED:
            endpoint.failing_since = None
            return
        endpoint.failing_since = endpoint.failing_since or at
        if verdict == Verdict.GONE:
            endpoint.status, endpoint.reason = EndpointStatus.DISABLED, "it answered 410 Gone"
            self._settle_pending(endpoint.id, DeliveryStatus.FAILED, "its endpoint answered 410 Gone")
        elif at - endpoint.failing_since >= timedelta(days=pause_days):
            endpoint.status = EndpointStatus.PAUSED
            endpoint.reason = f"every attempt failed since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC"
            self._settle_pending(endpoint.id, DeliveryStatus.HELD, "its endpoint is paused: enable it, then replay")

    def _settle_pending(self, endpoint_id: str, status: DeliveryStatus, reason: str) -> None:
        self.session.execute(
            update(DeliveryRow)
            .where(DeliveryRow.endpoint_id == endpoint_id, _is_pending())
            .values(**_ended(status, reason))
            .execution_options(synchronize_session=False)
        )

    def forget(self, *, before: datetime, limit: int = 1000) -> int:
        """Delete deliveries that ended before then, and their log; how many."""
        old: Sequence[DeliveryRow] = self.session.scalars(
            select(DeliveryRow).where(DeliveryRow.finished_at < before).limit(limit)
        ).all()
        for row in old:
            self.session.delete(row)
        return len(old)


def _ended(status: DeliveryStatus, reason: str | None = None) -> dict[str, Any]:
    return {"status": status, "reason": reason, "due_at": None, "finished_at": datetime.now(UTC)}


def _is_pending() -> ColumnElement[bool]:
    return DeliveryRow.status == DeliveryStatus.PENDING


def _is_free() -> ColumnElement[bool]:
    return or_(DeliveryRow.lease_until.is_(None), DeliveryRow.lease_until < database_epoch())
