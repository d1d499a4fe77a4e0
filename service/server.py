"""uvicorn, told to stop: first not ready any more, then no new connections, then gone."""

import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

FINISH_SECONDS = 10  # for requests that are being answered


class Departure:
    """Known to the server, which begins it, and to the application, which says so and lets watchers go."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self.let_watchers_go: Callable[[], object] = lambda: None

    def begin(self) -> None:
        self._begun.set()

    @property
    def has_begun(self) -> bool:
        return self._begun.is_set()


class Server(uvicorn.Server):
    def __init__(self, app: FastAPI, departure: Departure, *, drain_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=FINISH_SECONDS
            )
        )
        self._departure = departure
        self._drain_seconds = drain_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """At the first signal `/readyz` turns to 503, so that load balancers look elsewhere; a second one hurries."""
        if self._departure.has_begun:
            self._leave(sig, frame)
            return
        self._departure.begin()
        timer = threading.Timer(self._drain_seconds, self._leave, (sig, frame))
        timer.daemon = True
        timer.start()

    def _leave(self, sig: int, frame: FrameType | None) -> None:
        self._departure.let_watchers_go()
        super().handle_exit(sig, frame)
