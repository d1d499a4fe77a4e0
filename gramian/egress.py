"""Requests to addresses that somebody else chose: they reach public machines, or those that the operator named.

The guard sits below the HTTP client, where a connection is opened: the name is resolved once, every address it has is
checked, and the connection goes to a checked one. So neither another spelling of an address, nor a redirect, nor a name
that changes its answer between two looks gets past it, while Host header and TLS still see the name.
"""

import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import httpcore2
import httpx2

from gramian.errors import GramianError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Sequence[Address]]

TIMEOUT_SECONDS = 15.0
LONGEST_LABEL, LONGEST_NAME = 63, 253  # of a name in DNS

# IANA's special-purpose registries, multicast and reserved space, and the address at which Azure's hosts answer.
_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
        ),
    )
)
# All that is given out for the open network, without the parts that carry an IPv4 address or are special.
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


class AddressForbidden(GramianError):
    """A receiver that is not on the open network, and that the operator has not named."""

    code = "address_forbidden"
    title = "The address may not be reached"


class UnusableUrl(GramianError):
    """A URL to which no webhook can be sent."""

    code = "invalid_url"
    title = "The URL cannot be used"
    advice = "give a whole URL, as https://example.org/hooks"


def is_public(address: Address) -> bool:
    """Whether the address belongs to the open network.

    `ipaddress.is_global` does not do: it lets through multicast, translated and embedded IPv4 addresses.

    Examples
    --------
    >>> [is_public(ipaddress.ip_address(text)) for text in ("9.9.9.9", "10.0.0.1", "64:ff9b::a00:1", "2620:fe::fe")]
    [True, False, False, True]
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.ipv4_mapped:
        return is_public(address.ipv4_mapped)
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


def resolve(host: str, port: int) -> Sequence[Address]:
    """The addresses of a name, or of any spelling of an address that the system understands."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"the name {host[:100]!r} has no address") from error
    return list(dict.fromkeys(ipaddress.ip_address(address[0]) for *_, address in found))


class Guard:
    """What may be reached: public addresses, and the networks that the operator allows."""

    def __init__(self, allowed: Iterable[Network] = (), *, resolver: Resolver = resolve) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolver

    def addresses(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of a host, all of which may be reached.

        Raises
        ------
        AddressForbidden
            If one of them may not: a name with an inner and an outer address is not half right.
        """
        found = self._resolve(host, port)
        if not all(map(self._permits, found)):
            raise AddressForbidden(
                f"{host[:100]!r} is, or has, an address outside of the open network",
                hint="use a public address, or ask the operator to name the receiver in GRAMIAN_WEBHOOK_ALLOW",
            )
        return found

    def _permits(self, address: Address) -> bool:
        plain = getattr(address, "ipv4_mapped", None) or address
        return is_public(plain) or any(
            plain in network for network in self._allowed if network.version == plain.version
        )


class GuardedBackend(httpcore2.NetworkBackend):
    """Opens connections to guarded addresses only, and none to sockets of this machine; each has a time to end."""

    def __init__(self, guard: Guard, *, seconds: float = TIMEOUT_SECONDS) -> None:
        self._guard = guard
        self._sockets = httpcore2.SyncBackend()
        self._seconds = seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        deadline = Deadline.after(self._seconds)
        failure: Exception = httpcore2.ConnectError(f"the name {host[:100]!r} has no address")
        for address in self._guard.addresses(host, port):
            try:
                seconds = deadline.limit(timeout, httpcore2.ConnectTimeout)
                stream = self._sockets.connect_tcp(str(address), port, seconds, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, deadline)
        raise failure


@dataclass(frozen=True)
class Deadline:
    """When a whole exchange must be over, however lively it is: a timeout for each read does not end one that drips."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    def limit(self, timeout: float | None, error: type[Exception]) -> float:
        """The timeout of the next step; raises `error` if there is no time left for it."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise error("the exchange took too long")
        return left if timeout is None else min(timeout, left)


class _TimedStream(httpcore2.NetworkStream):
    """A connection whose every step ends by the deadline."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.limit(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.limit(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        seconds = self._deadline.limit(timeout, httpcore2.ConnectTimeout)
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, seconds), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _GuardedTransport(httpx2.HTTPTransport):
    def __init__(self, guard: Guard, *, seconds: float) -> None:
        super().__init__(trust_env=False, verify=_certificates())
        self._pool.close()
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_certificates(),
            network_backend=GuardedBackend(guard, seconds=seconds),
            max_connections=None,
            max_keepalive_connections=0,  # a connection's deadline is that of one exchange
        )


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust; read once, which takes as long as a hundred requests."""
    return httpx2.create_ssl_context(trust_env=False)


def guarded_client(guard: Guard, *, timeout: float = TIMEOUT_SECONDS) -> httpx2.Client:
    """A client that reaches guarded addresses only, follows no redirect and knows no proxy.

    An exchange is over after `timeout` seconds, all of its parts together.
    """
    transport = _GuardedTransport(guard, seconds=timeout)
    return httpx2.Client(transport=transport, timeout=timeout, follow_redirects=False, trust_env=False)


def check_url(guard: Guard, url: str) -> None:
    """Refuse a URL that no webhook could reach, as far as that can be told now: what counts is the moment of sending.

    Raises
    ------
    AddressForbidden
        If its host is, or has now, an address that may not be reached.
    UnusableUrl
        If it is no URL of HTTP, or carries a user or a password, which would end in logs.
    """
    try:
        parsed = httpx2.URL(url)
        port = parsed.port if parsed.port is not None else (443 if parsed.scheme == "https" else 80)
    except (httpx2.InvalidURL, ValueError) as error:
        raise UnusableUrl(f"it cannot be read as a URL: {error}") from None
    if parsed.scheme not in ("https", "http") or not parsed.host:
        raise UnusableUrl("a URL begins with https:// or http:// and a host")
    if not 1 <= port <= 65535:
        raise UnusableUrl(f"there is no port {port}")
    if max(map(len, parsed.host.split("."))) > LONGEST_LABEL or len(parsed.host) > LONGEST_NAME:
        raise UnusableUrl("no name of a host is so long")
    if parsed.userinfo:
        raise UnusableUrl("a URL with a user or a password would show it in logs; webhooks are signed instead")
    try:
        guard.addresses(parsed.host, port)
    except httpcore2.ConnectError:
        return  # a name without an address may have one tomorrow
