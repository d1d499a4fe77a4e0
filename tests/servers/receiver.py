"""A receiver of webhooks on loopback: what it was sent, and answers as a test wants them."""

import http.server
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from standardwebhooks import Webhook

ADDRESS = "127.0.0.5"  # loopback is a /8: an address of its own, so that tests may allow it alone


@dataclass(frozen=True)
class Reply:
    """An answer; or, with `behave`, none: it gets the connection and does as it likes."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    behave: Callable[[socket.socket], None] | None = None


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    def verified(self, secret: str) -> dict:
        """What it says, if the library of the specification finds the signature right."""
        found: dict = Webhook(secret).verify(self.body, self.headers)
        return found


def reset(connection: socket.socket) -> None:
    """Close the way a machine that has forgotten a connection does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def drip(connection: socket.socket) -> None:
    """Say a little, again and again, and never come to an end."""
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for number in range(2000):
            connection.sendall(f"X-{number}: y\r\n".encode())
            time.sleep(0.05)
    except OSError:
        pass


class Receiver:
    """Answers 204 unless `replies` holds something else for the next request."""

    def __init__(self, address: str = ADDRESS) -> None:
        self.received: list[Received] = []
        self.replies: deque[Reply] = deque()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = receiver.replies.popleft() if receiver.replies else Reply()
                receiver.received.append(Received(self.path, headers, body, time.time()))
                if reply.behave:
                    self.close_connection = True
                    reply.behave(self.connection)
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # a connection that the test broke

            def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
                if request.fileno() >= 0:
                    super().shutdown_request(request)

        self._server = Server((address, 0), Handler)
        self.url = f"http://{address}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def until(self, count: int, *, seconds: float = 30) -> list[Received]:
        """What was received, once there are so many."""
        deadline = time.monotonic() + seconds
        while len(self.received) < count:
            assert time.monotonic() < deadline, f"{len(self.received)} of {count} within {seconds} s"
            time.sleep(0.01)
        return self.received

    def clear(self) -> None:
        self.received.clear()
        self.replies.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
