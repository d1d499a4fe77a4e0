"""Is it alive, is it ready."""

from fastapi import APIRouter, Response

import gramian
from service import operations
from service.authorization import PUBLIC
from service.dependencies import ServicesDep
from service.schemas.health import Check, Liveness, Readiness

router = APIRouter(tags=["health"])


@router.get("/livez", openapi_extra=PUBLIC)
async def livez() -> Liveness:
    """The process answers; nothing else is asked."""
    return Liveness(status="alive", version=gramian.__version__)


@router.get(
    "/readyz",
    openapi_extra=PUBLIC,
    responses={503: {"model": Readiness, "description": "Something it needs does not answer"}},
)
def readyz(services: ServicesDep, response: Response) -> Readiness:
    """Whether requests can be served: database at the right version, queue, data folder."""
    checks = [Check(name=name, ok=ok) for name, ok in operations.readiness(services)]
    ready = all(check.ok for check in checks)
    response.status_code = 200 if ready else 503
    response.headers["Cache-Control"] = "no-store"
    return Readiness(status="ready" if ready else "not_ready", checks=checks)
