"""A request id for every request: taken from the caller if it is decent; in the answer, in problems, on log lines."""

import re
import secrets

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, clear_contextvars

ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,100}")


class RequestIds:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if ACCEPTED.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        scope["request_id"] = request_id
        clear_contextvars()
        bind_contextvars(request_id=request_id)  # not taken back: the server logs what is raised from here

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        await self.app(scope, receive, send_with_id)
