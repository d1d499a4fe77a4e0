"""Access keys over HTTP; `gramian keys` does the same at the database."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path

from service.authorization import ADMIN
from service.dependencies import ReadingDep, WritingDep
from service.problems import responses
from service.schemas.keys import Key, KeyList, KeyRequest, NewKey, Rotation

BODY_LIMIT_BYTES = 64 * 1024

KeyId = Annotated[str, Path(max_length=64)]

router = APIRouter(prefix="/v1/keys", tags=["access"], dependencies=[ADMIN], responses=responses(401, 403))


@router.post("", status_code=201, max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 413, 422))
def create_key(body: KeyRequest, uow: WritingDep) -> NewKey:
    """Make a key. Its secret is in this answer and nowhere else."""
    lifetime = timedelta(days=body.expires_in_days) if body.expires_in_days else None
    return NewKey.from_pair(*uow.keys.create(body.name, body.scope, lifetime=lifetime))


@router.get("")
def list_keys(uow: ReadingDep) -> KeyList:
    """All keys, the newest first; ended ones too."""
    return KeyList(items=[Key.from_row(row) for row in uow.keys.list()])


@router.post("/{key_id}/rotate", max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413, 422))
def rotate_key(key_id: KeyId, body: Rotation, uow: WritingDep) -> NewKey:
    """A successor; the old key lives on for the overlap, so that nobody is shut out while it is replaced."""
    return NewKey.from_pair(*uow.keys.rotate(key_id, overlap=timedelta(hours=body.overlap_hours)))


@router.delete("/{key_id}", responses=responses(404))
def revoke_key(key_id: KeyId, uow: WritingDep) -> Key:
    """End a key at once. It stays in the list."""
    return Key.from_row(uow.keys.revoke(key_id))
