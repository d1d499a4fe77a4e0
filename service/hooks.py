"""Outgoing webhooks in domain terms: their addresses are checked here, their secrets sealed and shown once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from gramian.egress import check_url
from gramian.errors import Conflict
from gramian.storage.announcing import call_back
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from gramian.storage.webhook_tables import EndpointRow
from gramian.storage.webhooks import CALLBACKS, MOST_CALLBACKS
from gramian.webhooks import new_secret
from service.dependencies import Services


@dataclass(frozen=True)
class CallbackTo:
    """Where one caller wants to be told of the end of its analysis."""

    url: str
    events: Sequence[str]


def create_endpoint(
    services: Services, uow: UnitOfWork, *, url: str, events: Sequence[str], description: str
) -> tuple[EndpointRow, str]:
    """A new receiver, and its secret."""
    check_url(services.guard, url)
    secret = new_secret()
    sealed = services.seal.close(secret)
    return uow.webhooks.create(url=url, events=events, description=description, sealed_secret=sealed), secret


def endpoint_to_change(services: Services, uow: UnitOfWork, id: str) -> EndpointRow:
    """The receiver; the one that stands for all callbacks is made if there was none."""
    if id == CALLBACKS:
        return uow.webhooks.ensure_callbacks(sealed_secret=services.seal.close(new_secret()))
    return uow.webhooks.get(id)


def rotate_secret(
    services: Services, uow: UnitOfWork, endpoint: EndpointRow, *, overlap: timedelta
) -> tuple[EndpointRow, str]:
    """The receiver with a new secret, and that secret."""
    secret = new_secret()
    return uow.webhooks.rotate(endpoint, sealed_secret=services.seal.close(secret), overlap=overlap), secret


def register_callback(services: Services, uow: UnitOfWork, analysis: AnalysisRow, callback: CallbackTo) -> None:
    """Tell one caller of the analysis's end; at once, if it has ended. Its address was checked before."""
    if uow.webhooks.count_callbacks(analysis) >= MOST_CALLBACKS:
        raise Conflict(
            f"analysis {analysis.id!r} has {MOST_CALLBACKS} callbacks, the most there can be",
            hint="ask without a callback, and make a webhook endpoint",
        )
    uow.webhooks.ensure_callbacks(sealed_secret=services.seal.close(new_secret()))
    call_back(uow.session, analysis, url=callback.url, events=callback.events)
