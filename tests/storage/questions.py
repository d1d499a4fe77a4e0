"""Analyses to test with, and shortcuts through their life."""

from datetime import UTC, datetime

from sqlalchemy import Engine, update

from gramian.analyses import Status, dedupe_key, new_id
from gramian.projects import EVERY
from gramian.specs import EmbeddingSpec, PathSource
from gramian.storage.jobs import Outcome
from gramian.storage.tables import AnalysisRow, MatrixRow
from gramian.storage.unit_of_work import UnitOfWork

LEASE = 30.0  # seconds
SHORT = 0.01  # a lease after which a server that has just started counts as settled

ERROR = {"code": "x", "title": "X", "detail": "it was planted", "hint": "none"}


def question(name: str = "a", **values: object) -> AnalysisRow:
    spec = EmbeddingSpec(source=PathSource(type="path", path=name))
    given = {
        "id": new_id("an"),
        "kind": "embedding",
        "status": Status.QUEUED,
        "spec": spec.model_dump(mode="json"),
        "identity": {},
        "dedupe_key": dedupe_key(spec, name),
        "created_at": datetime.now(UTC),
        "method_version": "1",
        "fence": 0,
        "deliveries": 0,
        "events": 1,
    }
    return AnalysisRow(**(given | values))


def claim(engine: Engine, id: str, *, lease_seconds: float = LEASE) -> int | None:
    with UnitOfWork(engine, project=EVERY) as uow:
        found = uow.jobs.claim(id, lease_seconds=lease_seconds)
    return found.fence if found else None


def expire_lease(engine: Engine, id: str) -> None:
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.session.execute(update(AnalysisRow).where(AnalysisRow.id == id).values(lease_until=1.0))


def matrix(analysis_id: str, *, dim: int = 4, epsilon: float = 0.05, capacity: float | None = None) -> MatrixRow:
    numbers = dict.fromkeys(
        (column.key for column in MatrixRow.__table__.columns if column.type.python_type in (int, float)), 1
    )
    known = {
        "analysis_id": analysis_id,
        "role": "input_embedding",
        "position": 0,
        "tensor": "wte.weight",
        "dtype": "F32",
        "digest": "sha256:0",
        "dim": dim,
        "epsilon": epsilon,
        "epsilon_class": "low_epsilon" if epsilon < 0.1 else "high_epsilon",
        "capacity_status": "estimated" if capacity else "indeterminate",
        "capacity_log10": capacity,
        "regime": "strong",
        "details": {},
    }
    return MatrixRow(**(numbers | known))


def outcome(*matrices: MatrixRow, **values: object) -> Outcome:
    given = {
        "matrices": matrices,
        "digest": "sha256:0",
        "tying": {"flag": None, "finding": "no_head", "reason": "none"},
        "warnings": [],
        "device": "cpu",
        "torch_version": "2",
        "seconds": {},
        "bytes_fetched": 0,
    }
    return Outcome(**(given | values))
