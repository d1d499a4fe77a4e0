"""A server in a thread."""

import socket
import threading
import time
from typing import Any

import uvicorn


class Server:
    """uvicorn in a thread, on a socket that is bound before it starts."""

    def __init__(self, app: Any, port: int) -> None:
        self._app, self._port = app, port
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None

    @property
    def origin(self) -> str:
        if self._socket is None:
            raise RuntimeError("the hub is not running")
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def start(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", self._port))
        config = uvicorn.Config(
            self._app, log_config=None, log_level="critical", access_log=False, lifespan="off", ws="none", http="h11"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the loopback hub did not start")
            time.sleep(0.005)

    def stop(self) -> None:
        if self._server is None or self._thread is None or self._socket is None:
            return
        self._server.should_exit = True
        self._server.force_exit = True  # tests leave keep-alive connections behind
        self._thread.join(timeout=10)
        self._socket.close()
