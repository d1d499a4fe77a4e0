"""Outgoing webhooks: who is told of what, and what became of it."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path

from gramian.egress import check_url
from gramian.storage.webhook_tables import DeliveryRow, DeliveryStatus, EndpointRow
from service import hooks
from service.authorization import ADMIN
from service.dependencies import Cursor, Limit, Name, ReadingDep, ServicesDep, WritingDep
from service.problems import responses
from service.schemas.webhooks import (
    Delivery,
    DeliveryDetail,
    DeliveryList,
    Endpoint,
    EndpointChange,
    EndpointList,
    EndpointRequest,
    NewEndpoint,
    Replay,
    Replayed,
    SecretRotation,
)

BODY_LIMIT_BYTES = 64 * 1024

router = APIRouter(
    prefix="/v1/webhook-endpoints", tags=["webhooks"], dependencies=[ADMIN], responses=responses(401, 403)
)

EndpointId = Annotated[str, Path(max_length=64, description="or `callbacks`, which stands for all of the project")]
DeliveryId = Annotated[str, Path(max_length=64)]


def endpoint_to_read(endpoint_id: EndpointId, uow: ReadingDep) -> EndpointRow:
    return uow.webhooks.get(endpoint_id)


def endpoint_to_write(endpoint_id: EndpointId, services: ServicesDep, uow: WritingDep) -> EndpointRow:
    return hooks.endpoint_to_change(services, uow, endpoint_id)


EndpointDep = Annotated[EndpointRow, Depends(endpoint_to_read, scope="function")]
ChangingDep = Annotated[EndpointRow, Depends(endpoint_to_write, scope="function")]


def delivery_to_read(delivery_id: DeliveryId, endpoint: EndpointDep, uow: ReadingDep) -> DeliveryRow:
    return uow.webhooks.delivery(endpoint, delivery_id)


def delivery_to_write(delivery_id: DeliveryId, endpoint: ChangingDep, uow: WritingDep) -> DeliveryRow:
    return uow.webhooks.delivery(endpoint, delivery_id)


def checked_change(body: EndpointChange, services: ServicesDep) -> dict[str, Any]:
    """What to write. A name is looked up here, before the transaction begins."""
    if body.url is not None:
        check_url(services.guard, body.url)
    return body.model_dump(exclude_unset=True, exclude_none=True)


@router.post("", status_code=201, max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 409, 413, 422))
def create_endpoint(body: EndpointRequest, services: ServicesDep, uow: WritingDep) -> NewEndpoint:
    """Name a receiver. The secret that verifies what it gets is in this answer and nowhere else."""
    created = hooks.create_endpoint(services, uow, url=body.url, events=body.events, description=body.description)
    uow.audit.note("webhook_endpoint.created", created[0].id)
    return NewEndpoint.with_secret(*created)


@router.get("")
def list_endpoints(uow: ReadingDep) -> EndpointList:
    """All receivers of your project, the newest first."""
    return EndpointList(items=[Endpoint.from_row(row) for row in uow.webhooks.list()])


@router.get("/{endpoint_id}", responses=responses(404))
def get_endpoint(endpoint: EndpointDep) -> Endpoint:
    """One receiver."""
    return Endpoint.from_row(endpoint)


@router.patch("/{endpoint_id}", max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 409, 413, 422))
def change_endpoint(
    values: Annotated[dict[str, Any], Depends(checked_change)], endpoint: ChangingDep, uow: WritingDep
) -> Endpoint:
    """Change a receiver. What waits for it goes where it is now."""
    uow.audit.note("webhook_endpoint.changed", endpoint.id, fields=sorted(values))
    return Endpoint.from_row(uow.webhooks.change(endpoint, **values))


@router.delete("/{endpoint_id}", status_code=204, responses=responses(404, 409))
def delete_endpoint(endpoint: ChangingDep, uow: WritingDep) -> None:
    """Forget a receiver, its log, and what waits for it."""
    uow.audit.note("webhook_endpoint.deleted", endpoint.id)
    uow.webhooks.delete(endpoint)


@router.post("/{endpoint_id}/rotate-secret", max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413, 422))
def rotate_secret(
    endpoint: ChangingDep, services: ServicesDep, uow: WritingDep, body: SecretRotation | None = None
) -> NewEndpoint:
    """A new secret. The old one signs beside it for the overlap, so that receivers can change over."""
    overlap = timedelta(hours=(body or SecretRotation()).overlap_hours)
    uow.audit.note("webhook_endpoint.rotated", endpoint.id)
    return NewEndpoint.with_secret(*hooks.rotate_secret(services, uow, endpoint, overlap=overlap))


@router.post("/{endpoint_id}/ping", status_code=202, responses=responses(404, 409))
def ping_endpoint(endpoint: ChangingDep, uow: WritingDep) -> Delivery:
    """Send a message of type `webhook.ping`; its delivery tells what came of it."""
    uow.audit.note("webhook_endpoint.pinged", endpoint.id)
    return Delivery.from_row(uow.webhooks.ping(endpoint))


@router.post(
    "/{endpoint_id}/replay",
    status_code=202,
    max_body_size=BODY_LIMIT_BYTES,
    responses=responses(400, 404, 409, 413, 422),
)
def replay_deliveries(endpoint: ChangingDep, body: Replay, uow: WritingDep) -> Replayed:
    """Send once more what was made since then and did not get through."""
    uow.audit.note("webhook_endpoint.replayed", endpoint.id)
    return Replayed(redelivered=uow.webhooks.replay(endpoint, since=body.since, statuses=body.statuses))


@router.get("/{endpoint_id}/deliveries", responses=responses(404, 422))
def list_deliveries(
    endpoint: EndpointDep,
    uow: ReadingDep,
    status: DeliveryStatus | None = None,
    type: Name | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> DeliveryList:
    """What the receiver was sent, the newest first."""
    page = uow.webhooks.deliveries(endpoint, status=status, type=type, cursor=cursor, limit=limit)
    return DeliveryList.from_rows(page.items, page.next_cursor)


@router.get("/{endpoint_id}/deliveries/{delivery_id}", responses=responses(404))
def get_delivery(delivery: Annotated[DeliveryRow, Depends(delivery_to_read, scope="function")]) -> DeliveryDetail:
    """One message, with every attempt: the request, and the beginning of the answer."""
    return DeliveryDetail.from_row(delivery)


@router.post("/{endpoint_id}/deliveries/{delivery_id}/redeliver", status_code=202, responses=responses(404, 409))
def redeliver(
    delivery: Annotated[DeliveryRow, Depends(delivery_to_write, scope="function")], uow: WritingDep
) -> Delivery:
    """Send a message once more, at once and under the same id."""
    uow.audit.note("delivery.redelivered", delivery.id)
    return Delivery.from_row(uow.webhooks.redeliver(delivery))
