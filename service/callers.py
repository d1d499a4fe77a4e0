"""Who is asking."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security.utils import get_authorization_scheme_param
from sqlalchemy import Engine
from structlog.contextvars import bind_contextvars

from gramian import projects
from gramian.errors import KeyRequired
from gramian.keys import KeySecret, Scope, parse_key
from gramian.limits import Limits, RateLimited
from gramian.settings import Settings
from gramian.storage.audit import WITHOUT_KEY
from gramian.storage.tables import KeyRow
from gramian.storage.unit_of_work import UnitOfWork
from service.rate_limits import RateLimiter


@dataclass(frozen=True)
class Caller:
    """What somebody may do, and in which project."""

    project_id: str
    scope: Scope
    key_id: str | None = None  # none where no key is asked for
    limits: Limits = field(default_factory=Limits)

    @property
    def actor(self) -> str:
        """Who is noted for what the caller does."""
        return self.key_id or WITHOUT_KEY


async def identify(request: Request) -> Caller | None:
    """Who is asking; None for a stranger. FastAPI asks once a request."""
    caller = await _recognised(request)
    if caller is not None and caller.limits.requests_per_minute is not None:
        account = caller.key_id or (request.client.host if request.client else "")
        limiter: RateLimiter = request.app.state.services.limiter
        allowance = await run_in_threadpool(limiter.take, account, caller.limits.requests_per_minute)
        request.scope["allowance"] = allowance
        if allowance is not None and not allowance.permitted:
            raise RateLimited(f"more than {allowance.limit} requests a minute", retry_after=allowance.reset_seconds)
    return caller


async def _recognised(request: Request) -> Caller | None:
    settings: Settings = request.app.state.settings
    limits = settings.limits
    if not settings.keys_required:
        return Caller(projects.DEFAULT, Scope.OPERATOR, limits=limits)
    authorization = request.headers.get("authorization")
    if not authorization:
        return Caller(projects.DEFAULT, Scope.READ, limits=limits) if settings.anonymous_read else None
    # a key that is no key is not taken for no key: its sender means to be somebody
    scheme, credentials = get_authorization_scheme_param(authorization)
    sent = parse_key(credentials) if scheme.lower() == "bearer" else None
    key = await run_in_threadpool(_live_key, request.app.state.services.engine, sent) if sent else None
    if key is None:
        return None
    bind_contextvars(key_id=key.id)
    return Caller(key.project_id, Scope(key.scope), key.id, limits.overridden(key.limits))


def _live_key(engine: Engine, sent: KeySecret) -> KeyRow | None:
    """Looked up anew for every request: a revoked key opens nothing any more, at any process."""
    with UnitOfWork(engine, project=projects.EVERY, writes=False) as uow:
        key = uow.keys.find(sent)
    if key is not None and uow.keys.is_use_unnoted(key):
        with UnitOfWork(engine, project=projects.EVERY) as uow:
            uow.keys.note_use(key.id)
    return key


async def known(caller: Annotated[Caller | None, Depends(identify)]) -> Caller:
    """Who is asking, of those who may ask at all."""
    if caller is None:
        raise KeyRequired("this needs a live access key", hint=KEY_HINT)
    return caller


KEY_HINT = "send it as `Authorization: Bearer gr_…`; `gramian keys create` makes one"

CallerDep = Annotated[Caller, Depends(known)]
