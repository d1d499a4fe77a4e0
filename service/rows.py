"""A question as the row that it begins as."""

from datetime import UTC, datetime

from gramian.analyses import Status, dedupe_key, new_id
from gramian.specs import Spec
from gramian.storage.tables import AnalysisRow


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
