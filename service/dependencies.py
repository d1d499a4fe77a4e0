"""What routes ask for: the composed services, a unit of work, loaded and checked resources."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request
from pydantic import StringConstraints
from sqlalchemy import Engine

from gramian.egress import Guard
from gramian.errors import InvalidParameter
from gramian.sealing import Seal
from gramian.settings import Settings
from gramian.storage.blobs import BlobStore
from gramian.storage.tables import AnalysisRow, UploadRow
from gramian.storage.unit_of_work import UnitOfWork
from service.callers import CallerDep
from service.dispatch import Dispatcher
from service.feed import Feed
from service.metrics import ServiceMetrics
from service.rate_limits import RateLimiter
from service.server import Departure

WAIT_LIMIT_SECONDS = 60


@dataclass(frozen=True)
class Services:
    """Everything a request may need, composed once in `create_app`."""

    settings: Settings
    engine: Engine
    blobs: BlobStore  # what was uploaded
    artifacts: BlobStore  # what analyses made
    dispatcher: Dispatcher
    feed: Feed
    departure: Departure
    metrics: ServiceMetrics
    guard: Guard  # what webhooks may reach
    seal: Seal
    limiter: RateLimiter


def services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


ServicesDep = Annotated[Services, Depends(services)]


def reading(services: ServicesDep, caller: CallerDep) -> Iterator[UnitOfWork]:
    with UnitOfWork(services.engine, project=caller.project_id, writes=False) as uow:
        yield uow


def writing(services: ServicesDep, caller: CallerDep) -> Iterator[UnitOfWork]:
    with UnitOfWork(services.engine, project=caller.project_id, actor=caller.actor) as uow:
        yield uow


# scope="function": the transaction ends before the response is sent, so that an answer is never ahead of its commit
ReadingDep = Annotated[UnitOfWork, Depends(reading, scope="function")]
WritingDep = Annotated[UnitOfWork, Depends(writing, scope="function")]


AnalysisId = Annotated[str, Path(max_length=64)]


def analysis(analysis_id: AnalysisId, uow: ReadingDep) -> AnalysisRow:
    return uow.analyses.get(analysis_id)


def upload(upload_id: Annotated[str, Path(max_length=64)], uow: ReadingDep) -> UploadRow:
    return uow.uploads.get(upload_id)


AnalysisDep = Annotated[AnalysisRow, Depends(analysis, scope="function")]
UploadDep = Annotated[UploadRow, Depends(upload, scope="function")]

# No name of ours holds a control character, and PostgreSQL text cannot hold NUL.
Name = Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")]
Cursor = Annotated[str | None, Query(max_length=4096, description="`next_cursor` of the page before")]
Limit = Annotated[int, Query(ge=1, le=500)]


def preferred_wait(
    prefer: Annotated[str | None, Header(description="`wait=30` holds the answer, at most 60 s")] = None,
) -> float:
    """Seconds that the caller is willing to wait (RFC 7240)."""
    found = re.search(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})", prefer or "", re.IGNORECASE)
    return min(float(found[1]), WAIT_LIMIT_SECONDS) if found else 0.0


WaitDep = Annotated[float, Depends(preferred_wait)]


def idempotency_key(
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="1 to 255 printable characters; the first answer under it is kept for 24 hours",
        ),
    ] = None,
) -> str | None:
    """The key, with or without the quotes that the IETF draft has around it."""
    if key is None:
        return None
    bare = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if not re.fullmatch(r"[\x20-\x7e]{1,255}", bare):
        raise InvalidParameter(
            "/Idempotency-Key",
            "an idempotency key has 1 to 255 printable ASCII characters",
            hint="a UUID is a good key",
        )
    return bare


IdempotencyKeyDep = Annotated[str | None, Depends(idempotency_key)]
