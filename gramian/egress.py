"""Requests to addresses that somebody else chose: they reach public machines, or those that the operator named.

The guard sits below the HTTP client, where a connection is opened: the name is resolved once, every address it has is
checked, and the connection goes to a checked one. So neither another spelling of an address, nor a redirect, nor a name
that changes its answer between two looks gets past it, while Host header and TLS still see the name.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import httpcore2
import httpx2

from gramian.errors import GramianError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Sequence[Address]]

TIMEOUT_SECONDS = 15.0

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
    """Opens connections to guarded addresses only, and none to sockets of this machine."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._sockets = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        failure: Exception = httpcore2.ConnectError(f"the name {host[:100]!r} has no address")
        for address in self._guard.addresses(host, port):
            try:
                return self._sockets.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure


class _GuardedTransport(httpx2.HTTPTransport):
    def __init__(self, guard: Guard) -> None:
        super().__init__(trust_env=False)
        self._pool.close()
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False), network_backend=GuardedBackend(guard)
        )


def guarded_client(guard: Guard, *, timeout: float = TIMEOUT_SECONDS) -> httpx2.Client:
    """A client that reaches guarded addresses only, follows no redirect and knows no proxy."""
    return httpx2.Client(transport=_GuardedTransport(guard), timeout=timeout, follow_redirects=False, trust_env=False)
