"""What happened is told in the transaction in which it happens: a delivery for each receiver that wants to know."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from gramian.analyses import ENDED, Status, new_id
from gramian.storage.engine import database_epoch
from gramian.storage.tables import AnalysisRow
from gramian.storage.webhook_tables import CallbackRow, DeliveryRow, DeliveryStatus, EndpointRow, EndpointStatus
from gramian.webhooks import wants, write_payload

LONGEST_DETAIL = 1000  # characters
LONGEST_LABELS = 8000  # of JSON: beyond, they are left out


@dataclass(frozen=True)
class Receiver:
    """Whom to tell, where, and of what."""

    endpoint: EndpointRow
    events: Sequence[str]
    url: str | None = None  # a callback's; else the endpoint's own, whatever it is when the message goes out


def announce(session: Session, *, project_id: str, type: str, data: dict[str, Any]) -> None:
    """Tell every endpoint of the project that wants to know. One message, a delivery for each of them."""
    _deliver(session, project_id, type, data, _endpoints(session, project_id))


def announce_end(session: Session, analysis_id: str) -> None:
    """Tell endpoints and callbacks how an analysis ended; called once its row, and its matrices, say so."""
    analysis = session.get_one(AnalysisRow, analysis_id, populate_existing=True)
    callbacks = session.scalars(select(CallbackRow).where(CallbackRow.analysis_id == analysis_id)).all()
    receivers = _endpoints(session, analysis.project_id)
    if callbacks:
        shared = callbacks_endpoint(session, analysis.project_id)
        receivers += [Receiver(shared, callback.events, callback.url) for callback in callbacks]
    if receivers:
        _deliver(session, analysis.project_id, f"analysis.{analysis.status}", described(analysis), receivers)


def call_back(session: Session, analysis: AnalysisRow, *, url: str, events: Sequence[str]) -> None:
    """Tell one caller of the analysis's end: now if it has ended, else when it does."""
    if analysis.status in ENDED:
        receiver = Receiver(callbacks_endpoint(session, analysis.project_id), events, url)
        _deliver(session, analysis.project_id, f"analysis.{analysis.status}", described(analysis), [receiver])
    else:
        session.merge(CallbackRow(analysis_id=analysis.id, url=url, events=list(events)))


def callbacks_endpoint(session: Session, project_id: str) -> EndpointRow:
    """What stands for the project's callbacks; made when the first was asked for, and never deleted."""
    query = select(EndpointRow).where(EndpointRow.project_id == project_id, EndpointRow.url.is_(None))
    return session.scalars(query).one()


def described(analysis: AnalysisRow) -> dict[str, Any]:
    """An analysis in few words: what a receiver needs to decide whether it wants to read all of it."""
    model = {"id": analysis.model_id, "revision": analysis.revision, "commit": analysis.commit}
    labels = {label.name: label.value for label in analysis.labels}
    error = analysis.error or {}
    return {
        "id": analysis.id,
        "kind": analysis.kind,
        "status": Status(analysis.status).value,
        "model": model if analysis.model_id else None,
        "digest": analysis.digest,
        "labels": labels if len(json.dumps(labels)) <= LONGEST_LABELS else None,
        "created_at": _time(analysis.created_at),
        "finished_at": _time(analysis.finished_at),
        "error": {"code": error["code"], "detail": error["detail"][:LONGEST_DETAIL]} if error else None,
        "matrices": [
            {
                "role": matrix.role,
                "rows": matrix.rows,
                "dim": matrix.dim,
                "epsilon": matrix.epsilon,
                "standard_error": matrix.epsilon_se,
                "class": matrix.epsilon_class,
                "log10_directions": matrix.capacity_log10,
            }
            for matrix in analysis.matrices
        ],
    }


def send(session: Session, endpoint: EndpointRow, *, type: str, data: dict[str, Any]) -> DeliveryRow:
    """A message for this endpoint alone, whatever events it wants."""
    (delivery,) = _rows(endpoint.project_id, type, data, [Receiver(endpoint, [])])
    session.add(delivery)
    session.flush()
    return delivery


def _deliver(session: Session, project_id: str, type: str, data: dict[str, Any], receivers: Sequence[Receiver]) -> None:
    wanted = [receiver for receiver in receivers if wants(receiver.events, type)]
    session.add_all(_rows(project_id, type, data, wanted))
    session.flush()


def _rows(project_id: str, type: str, data: dict[str, Any], receivers: Sequence[Receiver]) -> list[DeliveryRow]:
    now, message_id = datetime.now(UTC), new_id("msg")
    payload = write_payload(type, data, at=now)
    return [
        DeliveryRow(
            id=new_id("whd"),
            project_id=project_id,
            endpoint_id=receiver.endpoint.id,
            url=receiver.url,
            message_id=message_id,
            type=type,
            payload=payload,
            status=DeliveryStatus.HELD if receiver.endpoint.status == EndpointStatus.PAUSED else DeliveryStatus.PENDING,
            created_at=now,
            due_at=database_epoch(),
            attempts=0,
            tries=0,
            fence=0,
        )
        for receiver in receivers
    ]


def _endpoints(session: Session, project_id: str) -> list[Receiver]:
    """Who may be told; what a paused one misses is held for it."""
    query = select(EndpointRow).where(
        EndpointRow.project_id == project_id,
        EndpointRow.url.is_not(None),
        EndpointRow.status != EndpointStatus.DISABLED,
    )
    return [Receiver(endpoint, endpoint.events) for endpoint in session.scalars(query)]


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None
