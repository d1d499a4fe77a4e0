"""Who did what."""

from fastapi import APIRouter

from service.authorization import ADMIN
from service.dependencies import Cursor, Limit, Name, ReadingDep
from service.problems import responses
from service.schemas.audit import AuditEntry, AuditLog

router = APIRouter(prefix="/v1/audit", tags=["access"], dependencies=[ADMIN], responses=responses(401, 403, 422))


@router.get("")
def list_entries(
    uow: ReadingDep,
    action: Name | None = None,
    subject: Name | None = None,
    actor: Name | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> AuditLog:
    """Who submitted, changed and deleted what in your project, the latest first."""
    page = uow.audit.search(action=action, subject=subject, actor=actor, cursor=cursor, limit=limit)
    return AuditLog(items=[AuditEntry.model_validate(row) for row in page.items], next_cursor=page.next_cursor)
