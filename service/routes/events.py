"""The stream of what happens to an analysis."""

import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, HTTPException
from fastapi.sse import EventSourceResponse, ServerSentEvent

from gramian.analyses import ENDED
from gramian.errors import InvalidParameter
from gramian.storage.unit_of_work import UnitOfWork
from service.authorization import READ
from service.callers import CallerDep
from service.dependencies import AnalysisId, ServicesDep
from service.problems import responses

router = APIRouter(prefix="/v1/analyses", tags=["analyses"], dependencies=[READ])


def last_seen(
    analysis_id: AnalysisId,
    services: ServicesDep,
    caller: CallerDep,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="the last event that was received; later ones follow")
    ] = None,
) -> int:
    """The number of the event to go on after; 204 if there will never be another, which ends an EventSource."""
    with UnitOfWork(services.engine, project=caller.project_id, writes=False) as uow:
        analysis = uow.analyses.get(analysis_id)
    if not last_event_id:
        return 0
    if not re.fullmatch(r"[0-9]{1,9}", last_event_id) or int(last_event_id) > analysis.events:
        raise InvalidParameter(
            "/Last-Event-ID",
            f"the analysis has no event {last_event_id[:40]!r}, the latest is {analysis.events}",
            hint="send the id of an event received before, or leave the header out to get all",
        )
    if analysis.status in ENDED and int(last_event_id) == analysis.events:
        raise HTTPException(204)
    return int(last_event_id)


@router.get(
    "/{analysis_id}/events",
    response_class=EventSourceResponse,
    responses=responses(404, 422, more={204: {"description": "Nothing will happen any more"}}),
)
async def watch_analysis(
    analysis_id: AnalysisId, services: ServicesDep, after: Annotated[int, Depends(last_seen)]
) -> AsyncIterator[ServerSentEvent]:
    """Server-Sent Events `status` and `progress` from the first on, until the analysis has ended.

    A client that reconnects with `Last-Event-ID` misses none and sees none twice, also across restarts.
    """
    async for event in services.feed.events(analysis_id, after=after):
        yield ServerSentEvent(event=event.type, id=str(event.number), data=event.data)
