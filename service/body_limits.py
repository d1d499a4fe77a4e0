"""A body beyond its route's limit is answered with a problem document; the framework's own answer is plain text."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problems import MEDIA_TYPE, http_problem

TOO_LARGE = 413


class BodyLimitProblems:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        replaced = False

        async def send_problem(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and message["status"] == TOO_LARGE:
                replaced = Headers(raw=message["headers"]).get("content-type") != MEDIA_TYPE
            if not replaced:
                await send(message)
            elif message["type"] == "http.response.start":
                error = HTTPException(TOO_LARGE, "the body is larger than this route takes")
                await http_problem(Request(scope), error)(scope, receive, send)

        await self.app(scope, receive, send_problem if scope["type"] == "http" else send)
