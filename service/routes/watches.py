"""Watches: models whose new revisions are analysed, compared with the one before, and told of."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from gramian.storage.watch_tables import WatchRow
from service.authorization import READ, WRITE
from service.dependencies import Cursor, Limit, ReadingDep, WritingDep
from service.problems import responses
from service.schemas.watches import Watch, WatchChange, WatchedRevisionList, WatchList, WatchRequest

BODY_LIMIT_BYTES = 64 * 1024

router = APIRouter(prefix="/v1/watches", tags=["watches"], dependencies=[READ])

WatchId = Annotated[str, Path(max_length=64)]


def watch_to_read(watch_id: WatchId, uow: ReadingDep) -> WatchRow:
    return uow.watches.get(watch_id)


def watch_to_write(watch_id: WatchId, uow: WritingDep) -> WatchRow:
    return uow.watches.get(watch_id)


WatchDep = Annotated[WatchRow, Depends(watch_to_read, scope="function")]
ChangingDep = Annotated[WatchRow, Depends(watch_to_write, scope="function")]


@router.post(
    "", status_code=201, dependencies=[WRITE], max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 409, 413, 422)
)
def create_watch(body: WatchRequest, uow: WritingDep) -> Watch:
    """Follow a model, or all whose id has a pattern, from its next revision on.

    To have what it is now compared with that, ask for its analysis.
    """
    watch = uow.watches.create(**body.values())
    uow.audit.note("watch.created", watch.id, model_id=watch.model_id)
    return Watch.from_row(watch)


@router.get("")
def list_watches(uow: ReadingDep) -> WatchList:
    """All of your project, the newest first."""
    return WatchList(items=[Watch.from_row(row) for row in uow.watches.list()])


@router.get("/{watch_id}", responses=responses(404))
def get_watch(watch: WatchDep) -> Watch:
    """One watch."""
    return Watch.from_row(watch)


@router.patch(
    "/{watch_id}", dependencies=[WRITE], max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413, 422)
)
def change_watch(watch: ChangingDep, body: WatchChange, uow: WritingDep) -> Watch:
    """Change what is worth telling."""
    values = body.model_dump(exclude_unset=True)
    uow.audit.note("watch.changed", watch.id, **values)
    return Watch.from_row(uow.watches.change(watch, values))


@router.delete("/{watch_id}", status_code=204, dependencies=[WRITE], responses=responses(404))
def delete_watch(watch: ChangingDep, uow: WritingDep) -> None:
    """Follow no more. Analyses stay."""
    uow.audit.note("watch.deleted", watch.id)
    uow.watches.delete(watch)


@router.get("/{watch_id}/revisions", responses=responses(404, 422))
def list_revisions(watch: WatchDep, uow: ReadingDep, cursor: Cursor = None, limit: Limit = 50) -> WatchedRevisionList:
    """The commits that the watch met, the newest first, and what became of them."""
    page = uow.watches.revisions(watch, cursor=cursor, limit=limit)
    return WatchedRevisionList.from_rows(page.items, page.next_cursor)
