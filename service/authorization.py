"""Who may do what. Every route declares a scope by one of READ, WRITE and ADMIN, or that it is PUBLIC."""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from sqlalchemy import Engine
from structlog.contextvars import bind_contextvars

from gramian.errors import KeyRequired, ScopeMissing
from gramian.keys import KeySecret, Scope, parse_key
from gramian.settings import Settings
from gramian.storage.tables import KeyRow
from gramian.storage.unit_of_work import UnitOfWork
from service.dependencies import services

bearer = HTTPBearer(auto_error=False, scheme_name="key", description="`Authorization: Bearer gr_…`")


async def permitted_scope(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Scope | None:
    """The most that the caller may do; None for a stranger."""
    settings: Settings = request.app.state.settings
    if not settings.keys_required:
        return Scope.ADMIN
    sent = parse_key(credentials.credentials) if credentials else None
    if sent is None:
        # a key that is no key is not taken for no key: its sender means to be somebody
        return Scope.READ if settings.anonymous_read and not request.headers.get("authorization") else None
    key = await run_in_threadpool(_live_key, services(request).engine, sent)
    if key is None:
        return None
    bind_contextvars(key_id=key.id)
    return Scope(key.scope)


def _live_key(engine: Engine, sent: KeySecret) -> KeyRow | None:
    """Looked up anew for every request: a revoked key opens nothing any more, at any process."""
    with UnitOfWork(engine, writes=False) as uow:
        key = uow.keys.find(sent)
    if key is not None and uow.keys.is_use_unnoted(key):
        with UnitOfWork(engine) as uow:
            uow.keys.note_use(key.id)
    return key


async def require(scopes: SecurityScopes, permitted: Annotated[Scope | None, Depends(permitted_scope)]) -> None:
    """Refuse whoever may not do what a route is for."""
    for needed in map(Scope, scopes.scopes):
        if permitted is None:
            raise KeyRequired(
                f"this needs a live access key with the scope {needed}",
                hint="send it as `Authorization: Bearer gr_…`; `gramian keys create` makes one",
            )
        if not permitted.includes(needed):
            raise ScopeMissing(
                f"the key has the scope {permitted}, this needs {needed}", hint="ask for a key with that scope"
            )


READ = Security(require, scopes=[Scope.READ])
WRITE = Security(require, scopes=[Scope.WRITE])
ADMIN = Security(require, scopes=[Scope.ADMIN])

#: For routes that ask for nothing: said in the contract, so that it cannot be an oversight.
PUBLIC: dict[str, list[object]] = {"security": []}
