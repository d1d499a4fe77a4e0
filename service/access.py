"""One log line and one count a request."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics import ServiceMetrics

log = logging.getLogger("gramian.access")

QUIET = ("/livez", "/readyz", "/metrics")  # asked every few seconds by machines
UNMATCHED = "unmatched"


class Access:
    """Tells of a request by its route's template: neither path, query nor header gets into a line or a label."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = answered = time.perf_counter()
        status = 500  # what the server answers if nothing else does

        async def send_and_see(message: Message) -> None:
            nonlocal answered, status
            if message["type"] == "http.response.start":
                answered, status = time.perf_counter(), message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_see)
        finally:
            now = time.perf_counter()
            until_answer = (answered if answered > began else now) - began
            route = getattr(scope.get("route"), "path", UNMATCHED)
            self.metrics.count_request(scope["method"], route, status, until_answer)
            facts = {"method": scope["method"], "route": route, "status": status, "seconds": round(now - began, 6)}
            if analysis_id := scope.get("path_params", {}).get("analysis_id"):
                facts["analysis_id"] = analysis_id
            log.log(logging.DEBUG if route in QUIET else logging.INFO, "request", extra=facts)
