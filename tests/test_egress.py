"""No spelling of an inner address, no redirect and no changing name reaches what is not meant to be reached.

A canary listens on every address of this machine: a connection to it is the failure.
"""

import http.server
import ipaddress
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import httpx2
import pytest

from gramian.egress import AddressForbidden, Guard, GuardedBackend, guarded_client, is_public

RECEIVER = "127.0.0.3"  # loopback is a /8 of its own; the operator allows this one address of it
ALLOWED = (ipaddress.ip_network(f"{RECEIVER}/32"),)

INNER = {
    "loopback": "127.0.0.1",
    "another loopback": "127.8.9.10",
    "this host": "0.0.0.0",
    "metadata": "169.254.169.254",
    "private 10": "10.1.2.3",
    "private 172": "172.16.5.6",
    "private 192": "192.168.1.1",
    "shared": "100.64.0.1",
    "azure": "168.63.129.16",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "benchmark": "198.18.0.1",
}


def spellings(dotted: str) -> Iterator[str]:
    """The ways in which a URL can name one IPv4 address."""
    parts = [int(part) for part in dotted.split(".")]
    number = int(ipaddress.IPv4Address(dotted))
    low = number & 0xFFFF
    yield from (dotted, str(number), hex(number), f"0{number:o}", ".".join(f"0{part:o}" for part in parts))
    yield from (".".join(map(hex, parts)), f"{parts[0]}.{number & 0xFFFFFF}", f"{parts[0]}.{parts[1]}.{low}")
    yield f"[::ffff:{dotted}]"
    yield f"[::ffff:{number >> 16:x}:{low:x}]"
    yield f"[64:ff9b::{number >> 16:x}:{low:x}]"
    yield f"[64:ff9b:1::{number >> 16:x}:{low:x}]"
    yield f"[2002:{number >> 16:x}:{low:x}::1]"
    yield f"[::{dotted}]"


NAMES = (
    *("localhost", "LOCALHOST", "localhost.", "ip6-localhost", "①②⑦.⓪.⓪.①", "127。0。0。1", "127.0.0.1."),
    *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[fe80::1]", "[fc00::1]", "[fd12:3456::1]", "[fec0::1]", "[ff02::1]"),
    *("[2001:db8::1]", "[2001::1]", "[3fff::1]", "[100::1]", "[5f00::1]", "0", "127.1", "0x7f.1"),
)
HOSTS = sorted({*itertools.chain.from_iterable(map(spellings, INNER.values())), *NAMES})


@pytest.fixture(scope="module")
def canary() -> Iterator[tuple[int, list[str]]]:
    """A port on all addresses, and who connected."""
    visitors: list[str] = []
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)

    def watch() -> None:
        while True:
            try:
                connection, address = listener.accept()
            except OSError:
                return
            visitors.append(address[0])
            connection.close()

    threading.Thread(target=watch, daemon=True).start()
    with closing(listener):
        yield listener.getsockname()[1], visitors
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with guarded_client(Guard(ALLOWED), timeout=2) as client:
        yield client


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[str]]]:
    """A receiver that the operator allows; `/to?…` redirects, all else is received."""
    received: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.headers["Host"])
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            target = self.path.partition("?")[2]
            self.send_response(307 if target else 204)
            if target:
                self.send_header("Location", target)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((RECEIVER, 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://{RECEIVER}:{server.server_port}", received
    server.shutdown()
    server.server_close()


@pytest.fixture
def receiver(server: tuple[str, list[str]]) -> tuple[str, list[str]]:
    """The same, with nothing received yet."""
    server[1].clear()
    return server


def test_there_are_many_spellings() -> None:
    assert len(HOSTS) >= 80


@pytest.mark.parametrize("host", HOSTS)
def test_no_spelling_of_an_inner_address_is_connected_to(canary, client: httpx2.Client, host: str) -> None:
    port, visitors = canary
    try:
        client.post(f"http://{host}:{port}/", content=b"x")
    except (AddressForbidden, httpx2.InvalidURL, httpx2.ConnectError):
        pass  # not to be reached, no URL, or no name that the system knows
    else:
        pytest.fail("an answer came back")
    assert not visitors


@pytest.mark.parametrize("host", HOSTS)
def test_a_redirect_is_an_answer_like_another(canary, client: httpx2.Client, receiver, host: str) -> None:
    port, visitors = canary
    url, _ = receiver
    try:
        answer = client.post(url + f"/to?http://{host}:{port}/")
    except (httpx2.InvalidURL, UnicodeError):
        return
    assert answer.status_code == 307
    assert not visitors


def test_a_name_is_looked_up_once_and_the_address_that_was_checked_is_connected_to(canary, receiver) -> None:
    _, visitors = canary
    url, received = receiver
    answers = iter([[ipaddress.ip_address(RECEIVER)], [ipaddress.ip_address("127.0.0.1")]])
    looks: list[str] = []

    def rebinding(host: str, port: int) -> list:
        looks.append(host)
        return next(answers)

    port = url.rsplit(":", 1)[1]
    with guarded_client(Guard(ALLOWED, resolver=rebinding)) as client:
        assert client.post(f"http://receiver.example:{port}/").status_code == 204
    assert looks == ["receiver.example"]
    assert received == [f"receiver.example:{port}"]  # the name stays the name
    assert not visitors


def test_a_name_with_an_inner_address_among_outer_ones_is_refused() -> None:
    addresses = [ipaddress.ip_address(text) for text in ("9.9.9.9", "10.0.0.1")]
    with pytest.raises(AddressForbidden, match="outside"):
        Guard(resolver=lambda *_: addresses).addresses("half.example", 443)


def test_an_address_that_does_not_answer_gives_way_to_the_next(receiver) -> None:
    url, received = receiver
    port = url.rsplit(":", 1)[1]
    both = [ipaddress.ip_address("127.0.0.4"), ipaddress.ip_address(RECEIVER)]  # nobody listens at the first
    guard = Guard([*ALLOWED, ipaddress.ip_network("127.0.0.4/32")], resolver=lambda *_: both)
    with guarded_client(guard) as client:
        assert client.post(f"http://receiver.example:{port}/").status_code == 204
    assert received


def test_the_environments_proxy_is_not_asked(canary, receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    port, visitors = canary
    url, _ = receiver
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    with guarded_client(Guard(ALLOWED)) as client:
        assert client.post(url).status_code == 204
    assert not visitors


def test_no_socket_of_this_machine_is_opened() -> None:
    with pytest.raises(NotImplementedError):  # what httpcore2's base class answers: nothing of ours opens one
        GuardedBackend(Guard()).connect_unix_socket("/run/docker.sock")


@pytest.mark.parametrize("text", ["1.1.1.1", "93.184.216.34", "8.8.4.4", "2606:4700::1111", "2a00:1450:4001::1"])
def test_the_open_network_is_open(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))
