"""Numbers for Prometheus."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from service.authorization import OPERATOR
from service.dependencies import ServicesDep

router = APIRouter()


@router.get("/metrics", dependencies=[OPERATOR], include_in_schema=False)
def metrics(services: ServicesDep) -> Response:
    """The text exposition format; docs/operations.md explains every name. It counts all projects together."""
    return Response(services.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
