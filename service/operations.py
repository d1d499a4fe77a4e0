"""What the service does, in domain terms: routes call these, the tests of the rules too."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from gramian.analyses import ENDED, Status, dedupe_key, new_id
from gramian.egress import check_url
from gramian.errors import PathSourceDisabled, RequestInProgress
from gramian.queues import Priority
from gramian.specs import EmbeddingSpec, HubSource, PathSource, Spec, UploadSource
from gramian.storage import schema
from gramian.storage.blobs import IncomingBlob
from gramian.storage.idempotency import FirstAnswer
from gramian.storage.tables import AnalysisRow, UploadRow
from gramian.storage.unit_of_work import UnitOfWork
from gramian.weights.formats import FileHeader, inspect_file
from gramian.weights.hub import resolve_hub
from gramian.weights.names import is_vocabulary
from gramian.weights.paths import resolve_path
from gramian.weights.tensors import TensorInfo
from service.callers import Caller
from service.dependencies import Services
from service.following import Enrolment
from service.hooks import CallbackTo, register_callback
from service.quotas import check_queued_jobs, check_uploaded_bytes
from service.rows import new_row, pin_to_commit, tell_workers


@dataclass(frozen=True)
class Submission:
    """What became of a question, and the answer to send."""

    answer: FirstAnswer
    is_new: bool
    has_ended: bool
    is_replay: bool = False


@dataclass(frozen=True)
class IdempotencyKey:
    """A key, and the digest of the body that it came with."""

    key: str
    fingerprint: str


def submit_analysis(
    services: Services,
    caller: Caller,
    spec: Spec,
    labels: dict[str, str],
    *,
    priority: Priority,
    request_id: str,
    write: Callable[[AnalysisRow, bool], FirstAnswer],
    callback: CallbackTo | None = None,
    key: IdempotencyKey | None = None,
) -> Submission:
    """Accept the question, or find the analysis that answers it, or repeat the first answer under the key.

    `write` puts a row, and whether it is new, into the words of the answer. Row, key and answer are committed together
    before the id is pushed. The Hub is asked before the transaction opens.
    """
    if key:
        with UnitOfWork(services.engine, project=caller.project_id, writes=False) as uow:
            if first := uow.idempotency.find(key.key, key.fingerprint):
                return _replay(first)
    if callback:
        check_url(services.guard, callback.url)
    analysis = _resolve(services, spec)
    analysis.priority, analysis.required_device, analysis.request_id = priority, spec.device, request_id
    analysis.key_id = caller.key_id
    with UnitOfWork(services.engine, project=caller.project_id, actor=caller.actor) as uow:
        if key and not uow.idempotency.reserve(key.key, key.fingerprint):
            first = uow.idempotency.find(key.key, key.fingerprint)
            if first is None:
                raise RequestInProgress("the first request with this idempotency key is still being answered")
            return _replay(first)
        if isinstance(spec, EmbeddingSpec) and isinstance(spec.source, UploadSource):
            upload = uow.uploads.get(spec.source.upload_id)
            uow.hold(upload.sha256)
            analysis.upload_id, analysis.digest = upload.id, f"sha256:{upload.sha256}"
            digests = {tensor["name"]: tensor["sha256"] for tensor in upload.tensors if "sha256" in tensor}
            analysis.identity = {"sha256": upload.sha256, "filename": upload.filename, "tensors": digests}
            analysis.dedupe_key = dedupe_key(spec, analysis.digest)
        enrolment = Enrolment(uow, spec, analysis)
        accepted = uow.analyses.accept(analysis, labels)
        row = accepted.row
        enrolment.attach(row)
        if accepted.is_new:
            check_queued_jobs(uow, caller)
        uow.audit.note("analysis.submitted", row.id, kind=row.kind, new=accepted.is_new)
        if callback:
            register_callback(services, uow, row, callback)
        answer = write(row, accepted.is_new)
        if key:
            uow.idempotency.answer(key.key, answer)
        tell_workers(services, uow, accepted)
    services.metrics.count_question(spec.kind, priority, is_new=accepted.is_new)
    return Submission(answer, is_new=accepted.is_new, has_ended=row.status in ENDED)


def _replay(first: FirstAnswer) -> Submission:
    return Submission(first, is_new=True, has_ended=False, is_replay=True)


def cancel_analysis(services: Services, uow: UnitOfWork, analysis_id: str) -> AnalysisRow:
    """Take one caller's wish back; the last one's ends the analysis, and the process that runs it."""
    row, before = uow.analyses.cancel(analysis_id)
    uow.audit.note("analysis.cancelled", row.id, ended=row.status == Status.CANCELLED)
    if row.status == Status.CANCELLED and before == Status.RUNNING:
        uow.after_commit(lambda: services.dispatcher.stop(row.id))
    return row


def _resolve(services: Services, spec: Spec) -> AnalysisRow:
    """A row for the question, pinned to what its source is at this moment; what reads nothing is its parameters."""
    row = new_row(spec)
    if isinstance(spec, EmbeddingSpec):
        _pin(services, spec, row)
    return row


def _pin(services: Services, spec: EmbeddingSpec, row: AnalysisRow) -> None:
    settings = services.settings
    match spec.source:
        case HubSource(model_id=model_id, revision=revision):
            hub = resolve_hub(
                model_id,
                revision,
                endpoint=settings.hf_endpoint,
                token=settings.hub_token or False,
                timeout=settings.hub_timeout_seconds,
            )
            pin_to_commit(row, spec, hub)
        case PathSource(path=path):
            if settings.path_root is None:
                raise PathSourceDisabled(
                    "this service reads no paths", hint="the operator sets GRAMIAN_PATH_ROOT; or upload the file"
                )
            found = resolve_path(settings.path_root, path)
            row.identity = asdict(found)
            row.dedupe_key = dedupe_key(spec, found.fingerprint)
        case UploadSource():
            pass  # read inside the transaction, so that it cannot be deleted in between


def check_upload(services: Services, caller: Caller, size: int) -> None:
    """Refuse an upload that is too large for the caller's quota before its bytes are read."""
    with UnitOfWork(services.engine, project=caller.project_id, writes=False) as uow:
        check_uploaded_bytes(uow, caller, size)


def store_upload(services: Services, caller: Caller, incoming: IncomingBlob, filename: str) -> UploadRow:
    """Check what arrived, give it its digest's name, and remember it."""
    incoming.flush()
    header = inspect_file(incoming.path, filename=filename)
    upload = UploadRow(
        id=new_id("upl"),
        filename=filename,
        size=incoming.size,
        sha256=incoming.sha256,
        format=header.format,
        tensors=[_description(tensor, header, incoming.path) for tensor in header.tensors],
        created_at=datetime.now(UTC),
        key_id=caller.key_id,
    )
    with UnitOfWork(services.engine, project=caller.project_id, actor=caller.actor) as uow:
        check_uploaded_bytes(uow, caller, incoming.size)
        uow.hold(upload.sha256)
        incoming.publish()
        uow.uploads.add(upload)
        uow.audit.note("upload.created", upload.id, size=upload.size)
    return upload


def _description(tensor: TensorInfo, header: FileHeader, path: Path) -> dict[str, Any]:
    """Name, type and shape; of what is likely to be analysed the digest too, so that no analysis has to wait for it."""
    described = {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
    if is_vocabulary(tensor):
        described["sha256"] = header.matrix(tensor, path).sha256()
    return described


def readiness(services: Services) -> list[tuple[str, bool]]:
    """What the service needs, and whether it is there."""
    return [
        ("accepting", not services.departure.has_begun),
        ("database", _answers(services)),
        ("queue", services.dispatcher.is_reachable()),
        ("data_folder", os.access(services.settings.data_dir, os.W_OK)),
    ]


def _answers(services: Services) -> bool:
    try:
        return schema.is_current(services.engine)
    except SQLAlchemyError:
        return False


def blob_folder(data_dir: Path) -> Path:
    return data_dir / "blobs"
