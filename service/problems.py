"""Every error answer is a problem document (RFC 9457); this is the one table from errors to statuses."""

import http
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from gramian import errors
from gramian.egress import AddressForbidden, UnusableUrl
from gramian.limits import LimitReached
from gramian.pushes import HookDisabled, HookRefused

log = logging.getLogger("gramian.service")

MEDIA_TYPE = "application/problem+json"

STATUS: Mapping[type[errors.GramianError], int] = {
    errors.GeometryError: 422,
    errors.WeightsError: 422,
    errors.SourceError: 422,
    errors.ModelNotFound: 404,
    errors.RevisionNotFound: 404,
    errors.ModelAccessDenied: 403,
    errors.HubUnavailable: 503,
    errors.HubProtocolError: 502,
    errors.PathNotFound: 404,
    errors.NotFound: 404,
    errors.NotMeasured: 404,
    errors.KeyRequired: 401,
    errors.ScopeMissing: 403,
    errors.Conflict: 409,
    errors.IdempotencyKeyReused: 422,
    errors.RequestInProgress: 409,
    LimitReached: 429,
    HookDisabled: 403,
    HookRefused: 401,
    AddressForbidden: 422,
    UnusableUrl: 422,
    errors.InvalidCursor: 422,
    errors.InvalidParameter: 422,
    errors.EmptyUpload: 422,
    errors.UploadTooLarge: 413,
    errors.UploadInterrupted: 408,
    errors.StorageFull: 507,
}

DISCRIMINATORS = ("kind", "type", "law")

DATABASE_AWAY = (OperationalError, InternalError, InterfaceError, PoolTimeout)
DATABASE_RETRY_SECONDS = 2

HINTS = {
    400: "check the syntax of the request",
    404: "GET /openapi.json lists every path",
    405: "GET /openapi.json lists the methods of every path",
    413: "send less, or ask the operator to raise the limit",
}


class FieldError(BaseModel):
    pointer: str
    detail: str


class Problem(BaseModel):
    """What went wrong, for people (`detail`, `hint`) and programs (`code`)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    code: str
    hint: str | None = None
    errors: list[FieldError] = []
    candidates: list[str] | None = None
    request_id: str | None = None


def responses(*statuses: int, more: dict[int | str, dict[str, Any]] | None = None) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI declaration of the problems that a route can answer with."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    found: dict[int | str, dict[str, Any]] = {
        status: {"description": http.HTTPStatus(status).phrase, "content": {MEDIA_TYPE: schema}} for status in statuses
    }
    return found | (more or {})


def problem_type(code: str) -> str:
    return f"urn:gramian:problem:{code}"


def install(app: FastAPI) -> None:
    """Answer every error of the application with a problem document."""
    app.add_exception_handler(errors.GramianError, _gramian_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, http_problem)
    for kind in DATABASE_AWAY:
        app.add_exception_handler(kind, _database_away)
    app.add_exception_handler(Exception, _defect)


def status_of(error: errors.GramianError) -> int:
    """The most specific class of the error that the table knows decides."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def _gramian_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.GramianError)  # noqa: S101
    pointer = getattr(error, "pointer", None)
    headers = {}
    if isinstance(error, errors.KeyRequired):
        headers["WWW-Authenticate"] = "Bearer"
    if error.transient:
        headers["Retry-After"] = str(math.ceil(getattr(error, "retry_after", None) or 10))
    return _answer(
        request,
        status=status_of(error),
        code=error.code,
        title=error.title,
        detail=error.message,
        hint=error.hint,
        field_errors=[FieldError(pointer=pointer, detail=error.message)] if pointer else [],
        candidates=list(getattr(error, "candidates", ())) or None,
        headers=headers,
    )


def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = [FieldError(pointer=_pointer(item, error.body), detail=_sentence(item)) for item in error.errors()]
    malformed = any(item["type"] == "json_invalid" for item in error.errors())
    return _answer(
        request,
        status=400 if malformed else 422,
        code="malformed_json" if malformed else "invalid_request",
        title="The body is not JSON" if malformed else "The request is not valid",
        detail="; ".join(f"{item.pointer}: {item.detail}" for item in found[:5]),
        hint="correct the fields named under errors; GET /openapi.json describes them",
        field_errors=found,
    )


def http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    phrase = http.HTTPStatus(error.status_code).phrase
    if error.status_code == http.HTTPStatus.NO_CONTENT:
        return Response(status_code=error.status_code)
    return _answer(
        request,
        status=error.status_code,
        code=phrase.lower().replace(" ", "_"),
        title=phrase,
        detail=f"{request.method} {request.url.path}: {error.detail}",
        hint=HINTS.get(error.status_code),
        headers=dict(error.headers or {}),
    )


def _database_away(request: Request, error: Exception) -> JSONResponse:
    """Nobody's mistake: it restarts, or is too busy. Whether a write took place may be unknown."""
    log.warning("%s %s: the database did not answer (%s)", request.method, request.url.path, error)
    return _answer(
        request,
        status=503,
        code="database_unavailable",
        title="The database does not answer",
        detail="the service lost its database just now",
        hint="try again; with the same Idempotency-Key an analysis is never asked for twice",
        headers={"Retry-After": str(DATABASE_RETRY_SECONDS)},
    )


def _defect(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    # raised again after the answer, and logged with its trace by the server
    return _answer(
        request,
        status=500,
        code="internal_error",
        title="Gramian failed",
        detail="an error inside the service; its log has the trace under this request id",
        hint="please report it with the request id",
        headers={"X-Request-ID": request.scope["request_id"]},  # answered outside the middleware that sets it
    )


def _answer(
    request: Request,
    *,
    status: int,
    code: str,
    title: str,
    detail: str,
    hint: str | None,
    field_errors: Sequence[FieldError] = (),
    candidates: list[str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    problem = Problem(
        type=problem_type(code),
        title=title,
        status=status,
        detail=detail,
        instance=request.url.path,
        code=code,
        hint=hint,
        errors=list(field_errors),
        candidates=candidates,
        request_id=request.scope.get("request_id"),
    )
    body = problem.model_dump(exclude_none=True)
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def _pointer(item: Mapping[str, Any], body: object) -> str:
    """A JSON pointer into the body, or `/name` of a parameter.

    Pydantic puts the variant of a union into the path, which the body does not have as a level.
    """
    location = item["loc"]
    parts = list(location[1:] if location and location[0] in ("body", "query", "path", "header") else location)
    levels, at = [], body
    for part in parts:
        if not _is_level(part, at):
            continue
        levels.append(part)
        inside = (isinstance(at, Mapping) and part in at) or (isinstance(at, list) and part in range(len(at)))
        at = at[part] if inside else None  # type: ignore[index]
    if not levels and item["type"].startswith("union_tag"):
        levels = [item["ctx"]["discriminator"].strip("'")]
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in levels) or "/"


def _is_level(part: str | int, at: object) -> bool:
    """Whether the body has the part as a level below `at`, or would have it if it were complete."""
    if isinstance(at, Mapping):
        return part in at or part not in [at.get(name) for name in DISCRIMINATORS]
    return at is None or isinstance(part, int)


def _sentence(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "union_tag_invalid":
            return f"{item['ctx']['tag']!r} is none of {item['ctx']['expected_tags']}"
        case "union_tag_not_found":
            return f"say which by {item['ctx']['discriminator']}"
    message = str(item["msg"]).removeprefix("Value error, ")
    return message if message[:2].isupper() else message[:1].lower() + message[1:]
