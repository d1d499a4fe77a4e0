"""A question as the row that it begins as, and how workers hear of it."""

from dataclasses import asdict
from datetime import UTC, datetime

from gramian.analyses import Status, dedupe_key, new_id
from gramian.specs import Spec
from gramian.storage.analyses import Accepted
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from gramian.weights.hub import HubIdentity
from service.dependencies import Services


def new_row(spec: Spec) -> AnalysisRow:
    """A queued analysis, not yet pinned to what its source is."""
    return AnalysisRow(
        id=new_id("an"),
        kind=spec.kind,
        status=Status.QUEUED,
        spec=spec.model_dump(mode="json"),
        identity={},
        dedupe_key=dedupe_key(spec),
        created_at=datetime.now(UTC),
        fence=0,
        deliveries=0,
        events=1,
        method_version=spec.method_version,
    )


def pin_to_commit(row: AnalysisRow, spec: Spec, hub: HubIdentity) -> None:
    """Let a question mean a model as it was at one commit."""
    row.model_id, row.revision, row.commit = hub.model_id, hub.revision, hub.commit
    row.identity = asdict(hub)
    row.dedupe_key = dedupe_key(spec, f"{hub.model_id}@{hub.commit}")


def tell_workers(services: Services, uow: UnitOfWork, accepted: Accepted) -> None:
    """Push what was accepted, once it is durable, if no message tells of it."""
    row = accepted.row
    if accepted.needs_message:
        uow.after_commit(lambda: services.dispatcher.push(row.id, priority=row.priority, device=row.required_device))
