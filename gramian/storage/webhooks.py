"""Receivers of webhooks in SQL: made, changed, looked at, and their messages sent once more."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from gramian.analyses import new_id
from gramian.errors import Conflict, NotFound
from gramian.storage.announcing import send
from gramian.storage.engine import database_epoch
from gramian.storage.inserting import insert
from gramian.storage.paging import Order, Page, fetch_page
from gramian.storage.tables import AnalysisRow
from gramian.storage.webhook_tables import CallbackRow, DeliveryRow, DeliveryStatus, EndpointRow, EndpointStatus
from gramian.webhooks import EVERY_EVENT, PING

MOST_ENDPOINTS = 100  # of a project
MOST_CALLBACKS = 20  # of an analysis

CALLBACKS = "callbacks"
"""In place of an id: what stands for the callbacks of the project."""

_NOT_WANTED = "its endpoint was disabled"


class WebhookRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    # -- endpoints --

    def create(self, *, url: str, events: Sequence[str], description: str, sealed_secret: str) -> EndpointRow:
        count = self.session.scalar(select(func.count()).select_from(EndpointRow).where(EndpointRow.url.is_not(None)))
        if (count or 0) >= MOST_ENDPOINTS:
            raise Conflict(
                f"the project has {count} webhook endpoints, the most there can be", hint="delete one that is not used"
            )
        row = EndpointRow(
            id=new_id("whe"),
            url=url,
            events=list(events),
            description=description,
            status=EndpointStatus.ENABLED,
            secret=sealed_secret,
            created_at=datetime.now(UTC),
        )
        self.session.add(row)
        self.session.flush()
        return row

    def ensure_callbacks(self, *, sealed_secret: str) -> EndpointRow:
        """What stands for the callbacks of the project, made with this secret if there is none yet."""
        values = {
            "id": new_id("whe"),
            "project_id": self.session.info["project"],
            "description": "all callbacks of the project",
            "events": [EVERY_EVENT],
            "status": EndpointStatus.ENABLED,
            "secret": sealed_secret,
            "created_at": datetime.now(UTC),
        }
        self.session.execute(insert(self.session, EndpointRow).values(values).on_conflict_do_nothing())
        return self.session.scalars(select(EndpointRow).where(EndpointRow.url.is_(None))).one()

    def get(self, id: str) -> EndpointRow:
        query = select(EndpointRow).where(EndpointRow.url.is_(None) if id == CALLBACKS else EndpointRow.id == id)
        row = self.session.scalars(query).one_or_none() if "\x00" not in id else None
        if row is None:
            raise NotFound("webhook endpoint", id, hint="GET /v1/webhook-endpoints lists them")
        return row

    def list(self) -> Sequence[EndpointRow]:
        """All of the project, the newest first."""
        query = select(EndpointRow).order_by(EndpointRow.created_at.desc(), EndpointRow.id.desc())
        return self.session.scalars(query).all()

    def change(self, row: EndpointRow, **values: Any) -> EndpointRow:
        """Write what is given. An endpoint that is disabled gets nothing more, not even what waits for it."""
        _require_own_url(row)
        for name, value in values.items():
            setattr(row, name, value)
        if "status" in values:
            row.failing_since = None
            row.reason = None if row.status == EndpointStatus.ENABLED else "it was disabled over the API"
            if row.status == EndpointStatus.DISABLED:
                self._give_up_pending(row)
        self.session.flush()
        return row

    def rotate(self, row: EndpointRow, *, sealed_secret: str, overlap: timedelta) -> EndpointRow:
        """A new secret; the one before signs beside it for as long as the overlap is."""
        row.old_secret, row.old_secret_until = row.secret, datetime.now(UTC) + overlap
        row.secret = sealed_secret
        self.session.flush()
        return row

    def delete(self, row: EndpointRow) -> None:
        """Forget an endpoint with its log, and what waits for it."""
        _require_own_url(row)
        self.session.delete(row)
        self.session.flush()

    def ping(self, row: EndpointRow) -> DeliveryRow:
        """Send a message that says nothing but that the endpoint is heard."""
        _require_own_url(row)
        _require_enabled(row)
        return send(self.session, row, type=PING, data={"endpoint_id": row.id})

    def _give_up_pending(self, row: EndpointRow) -> None:
        self.session.execute(
            update(DeliveryRow)
            .where(DeliveryRow.endpoint_id == row.id, DeliveryRow.status == DeliveryStatus.PENDING)
            .values(status=DeliveryStatus.FAILED, reason=_NOT_WANTED, due_at=None, finished_at=datetime.now(UTC))
            .execution_options(synchronize_session=False)
        )

    # -- callbacks --

    def count_callbacks(self, analysis: AnalysisRow) -> int:
        query = select(func.count()).select_from(CallbackRow).where(CallbackRow.analysis_id == analysis.id)
        return self.session.scalar(query) or 0

    # -- deliveries --

    def deliveries(
        self, endpoint: EndpointRow, *, status: str | None, type: str | None, cursor: str | None, limit: int
    ) -> Page:
        query = select(DeliveryRow).where(DeliveryRow.endpoint_id == endpoint.id)
        if status:
            query = query.where(DeliveryRow.status == status)
        if type:
            query = query.where(DeliveryRow.type == type)
        order = Order("-created_at", DeliveryRow.created_at, DeliveryRow.id)
        return fetch_page(self.session, query, order=order, cursor=cursor, limit=limit)

    def delivery(self, endpoint: EndpointRow, id: str) -> DeliveryRow:
        query = select(DeliveryRow).where(DeliveryRow.endpoint_id == endpoint.id, DeliveryRow.id == id)
        row = self.session.scalars(query).one_or_none() if "\x00" not in id else None
        if row is None:
            raise NotFound("delivery", id, hint="GET /v1/webhook-endpoints/{id}/deliveries lists them")
        return row

    def redeliver(self, delivery: DeliveryRow) -> DeliveryRow:
        """Begin again, at once, under the same message id."""
        _require_enabled(delivery.endpoint)
        self._begin_again(DeliveryRow.id == delivery.id)
        self.session.refresh(delivery)
        return delivery

    def replay(self, endpoint: EndpointRow, *, since: datetime, statuses: Sequence[str]) -> int:
        """Begin again with what did not get through since then; how many that is."""
        _require_enabled(endpoint)
        return self._begin_again(
            DeliveryRow.endpoint_id == endpoint.id,
            DeliveryRow.created_at >= since,
            DeliveryRow.status.in_(statuses),
        )

    def _begin_again(self, *which: Any) -> int:
        values = {"status": DeliveryStatus.PENDING, "reason": None, "finished_at": None, "lease_until": None}
        begun = self.session.execute(
            update(DeliveryRow)
            .where(*which)
            .values(due_at=database_epoch(), tries=0, fence=DeliveryRow.fence + 1, **values)
            .returning(DeliveryRow.id)
            .execution_options(synchronize_session=False)
        )
        return len(begun.all())


def _require_own_url(row: EndpointRow) -> None:
    if row.url is None:
        raise Conflict(
            "this stands for all callbacks of the project and has no URL of its own",
            hint="a callback's URL is given with the analysis; here its secret is rotated and its log is read",
        )


def _require_enabled(endpoint: EndpointRow) -> None:
    if endpoint.status != EndpointStatus.ENABLED:
        raise Conflict(
            f"the endpoint is {endpoint.status}: {endpoint.reason}",
            hint='enable it first: PATCH /v1/webhook-endpoints/{id} {"status": "enabled"}',
        )
