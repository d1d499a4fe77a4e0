"""Analyses: ask, look, list."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from structlog.contextvars import bind_contextvars

from gramian.analyses import ENDED, Status, canonical_json
from gramian.errors import NotFound
from gramian.storage import deleting
from gramian.storage.idempotency import FirstAnswer
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from service import operations
from service.authorization import READ, WRITE
from service.callers import Caller, CallerDep
from service.dependencies import (
    AnalysisDep,
    AnalysisId,
    Cursor,
    IdempotencyKeyDep,
    Limit,
    Name,
    ReadingDep,
    Services,
    ServicesDep,
    WaitDep,
    WritingDep,
)
from service.hooks import CallbackTo
from service.problems import responses
from service.schemas.analyses import Analysis, AnalysisBody, AnalysisList, AnalysisRequest

OK, ACCEPTED = 200, 202
RETRY_AFTER_SECONDS = 1
BODY_LIMIT_BYTES = 1024**2

router = APIRouter(prefix="/v1/analyses", tags=["analyses"], dependencies=[READ])


@router.post(
    "",
    status_code=202,
    dependencies=[WRITE],
    response_model=Analysis,
    max_body_size=BODY_LIMIT_BYTES,
    responses=responses(
        *(400, 403, 404, 409, 413, 422, 429, 502, 503),
        more={200: {"model": Analysis, "description": "The answer was known, or ended while you waited"}},
    ),
)
async def create_analysis(
    body: AnalysisBody,
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    wait: WaitDep,
    key: IdempotencyKeyDep,
) -> Response:
    """Ask for an analysis. The same question asked again gets the analysis that answers it.

    With an `Idempotency-Key` the first answer is kept for 24 hours and repeated to the same body.
    """
    submission = await run_in_threadpool(
        operations.submit_analysis,
        services,
        caller,
        body.spec(),
        body.labels,
        priority=body.priority,
        request_id=request.scope["request_id"],
        write=_answer,
        callback=CallbackTo(body.callback.url, body.callback.events) if body.callback else None,
        key=_keyed(key, body) if key else None,
    )
    answer = submission.answer
    bind_contextvars(analysis_id=answer.analysis_id)
    headers = {"Location": str(request.app.url_path_for("get_analysis", analysis_id=answer.analysis_id))}
    if submission.is_replay:
        headers["Idempotency-Replayed"] = "true"
    if wait and not submission.has_ended:
        await services.feed.wait(answer.analysis_id, seconds=wait)
        row = await run_in_threadpool(_read, services, caller, answer.analysis_id)
        answer = _answer(row, submission.is_new)
        headers["Preference-Applied"] = f"wait={wait:.0f}"
    if answer.status == ACCEPTED:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return Response(answer.body, status_code=answer.status, headers=headers, media_type="application/json")


def _keyed(key: str, body: AnalysisRequest) -> operations.IdempotencyKey:
    fingerprint = hashlib.sha256(canonical_json(body.model_dump(mode="json")).encode()).hexdigest()
    return operations.IdempotencyKey(key, fingerprint)


def _answer(row: AnalysisRow, is_new: bool) -> FirstAnswer:
    status = OK if row.status in ENDED or not is_new else ACCEPTED
    return FirstAnswer(row.id, status, Analysis.from_row(row, deduplicated=not is_new).model_dump_json(by_alias=True))


@router.post("/{analysis_id}/cancel", dependencies=[WRITE], responses=responses(404, 409))
def cancel_analysis(analysis_id: AnalysisId, services: ServicesDep, uow: WritingDep) -> Analysis:
    """Take the wish back. An analysis that several callers asked for goes on until the last of them cancels."""
    return Analysis.from_row(operations.cancel_analysis(services, uow, analysis_id))


@router.delete("/{analysis_id}", dependencies=[WRITE], status_code=204, responses=responses(404, 409))
def delete_analysis(analysis_id: AnalysisId, services: ServicesDep, uow: WritingDep) -> None:
    """Forget an analysis that has ended, with its numbers and the files that it made."""
    analysis = uow.analyses.get(analysis_id)
    deleting.delete_analysis(uow, analysis, engine=services.engine, artifacts=services.artifacts)


@router.get(
    "/{analysis_id}", response_model=Analysis, responses=responses(404, more={304: {"description": "Unchanged"}})
)
def get_analysis(analysis: AnalysisDep, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """One analysis; `ETag` changes with every change of it."""
    body = Analysis.from_row(analysis).model_dump_json(by_alias=True).encode()
    headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if analysis.status not in ENDED:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if _matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@router.get(
    "/{analysis_id}/{name}.safetensors",
    response_class=FileResponse,
    responses=responses(
        404,
        more={
            200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
            304: {"description": "Unchanged"},
        },
    ),
)
def get_file(
    analysis: AnalysisDep,
    name: Annotated[str, Path(max_length=64)],
    services: ServicesDep,
    uow: ReadingDep,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """A file that the analysis made, as its result links to it. Its `ETag` is the SHA-256 of its bytes."""
    file = uow.files.get(analysis, f"{name}.safetensors")
    headers = {"ETag": f'"{file.sha256}"', "Cache-Control": "private, max-age=31536000, immutable"}
    if _matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    path = services.artifacts.path(file.sha256)
    if not path.is_file():
        raise NotFound("file", path.name, hint="the data folder has lost it: was it restored without `artifacts`?")
    return FileResponse(path, filename=f"{analysis.id}-{name}.safetensors", headers=headers)


@router.get("", responses=responses(422))
def list_analyses(
    uow: ReadingDep,
    kind: Name | None = None,
    status: Status | None = None,
    model_id: Name | None = None,
    label: Annotated[list[Name] | None, Query(description="`name` or `name:value`; repeat to narrow down")] = None,
    sort: Name = "-created_at",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> AnalysisList:
    """Analyses, newest first unless sorted otherwise (`created_at`, `finished_at`, `id`)."""
    page = uow.analyses.search(
        kind=kind,
        status=status,
        model_id=model_id,
        labels=[_label(text) for text in label or ()],
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    return AnalysisList(items=[Analysis.from_row(row) for row in page.items], next_cursor=page.next_cursor)


def _matches(if_none_match: str | None, etag: str) -> bool:
    tags = if_none_match.split(",") if if_none_match else ()
    return any(tag.strip().removeprefix("W/") in (etag, "*") for tag in tags)


def _label(text: str) -> tuple[str, str | None]:
    name, colon, value = text.partition(":")
    return name, value if colon else None


def _read(services: Services, caller: Caller, analysis_id: str) -> AnalysisRow:
    with UnitOfWork(services.engine, project=caller.project_id, writes=False) as uow:
        return uow.analyses.get(analysis_id)
