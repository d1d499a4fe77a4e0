"""Access keys over HTTP; `gramian keys` does the same at the database."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Path

from gramian.keys import Scope
from gramian.storage.tables import KeyRow
from service.authorization import ADMIN, check_scope
from service.callers import CallerDep
from service.dependencies import ReadingDep, WritingDep
from service.problems import responses
from service.schemas.keys import Key, KeyList, KeyRequest, NewKey, Rotation

BODY_LIMIT_BYTES = 64 * 1024

router = APIRouter(prefix="/v1/keys", tags=["access"], dependencies=[ADMIN], responses=responses(401, 403))


def own_key(key_id: Annotated[str, Path(max_length=64)], caller: CallerDep, uow: WritingDep) -> KeyRow:
    """A key of the caller's project that permits no more than the caller's."""
    row = uow.keys.get(key_id)
    check_scope(caller, Scope(row.scope))
    return row


OwnKeyDep = Annotated[KeyRow, Depends(own_key, scope="function")]


@router.post("", status_code=201, max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413, 422))
def create_key(body: KeyRequest, caller: CallerDep, uow: WritingDep) -> NewKey:
    """Make a key. Its secret is in this answer and nowhere else. Nobody makes a key that permits more than his own."""
    check_scope(caller, body.scope)
    if body.project is not None or body.limits is not None:
        check_scope(caller, Scope.OPERATOR)
    project = uow.projects.named(body.project) if body.project else uow.projects.get(caller.project_id)
    lifetime = timedelta(days=body.expires_in_days) if body.expires_in_days else None
    limits = body.limits.given() if body.limits else {}
    row, secret = uow.keys.create(body.name, body.scope, lifetime=lifetime, project_id=project.id, limits=limits)
    uow.audit.note("key.created", row.id, project_id=project.id, name=row.name, scope=row.scope)
    return NewKey.from_pair(row, secret)


@router.get("")
def list_keys(uow: ReadingDep) -> KeyList:
    """All keys of your project, the newest first; ended ones too."""
    return KeyList(items=[Key.from_row(row) for row in uow.keys.list()])


@router.post("/{key_id}/rotate", max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413, 422))
def rotate_key(key: OwnKeyDep, body: Rotation, uow: WritingDep) -> NewKey:
    """A successor; the old key lives on for the overlap, so that nobody is shut out while it is replaced."""
    row, secret = uow.keys.rotate(key.id, overlap=timedelta(hours=body.overlap_hours))
    uow.audit.note("key.rotated", key.id, successor=row.id)
    return NewKey.from_pair(row, secret)


@router.delete("/{key_id}", responses=responses(404))
def revoke_key(key: OwnKeyDep, uow: WritingDep) -> Key:
    """End a key at once. It stays in the list."""
    uow.audit.note("key.revoked", key.id)
    return Key.from_row(uow.keys.revoke(key.id))
