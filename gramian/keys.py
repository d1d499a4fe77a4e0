"""Access keys: what they look like, what they permit, and how they are kept.

A key is `gr_`, 30 random characters and a checksum of 6, all base 62. The checksum tells a mistyped or cut off key, and
lets secret scanners tell a key from noise; it protects nothing. Only the SHA-256 of a key is stored: 30 characters hold
178 bits, so a fast hash is enough.
"""

import hashlib
import secrets
import string
import zlib
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "gr_"
RANDOM_LENGTH, CHECKSUM_LENGTH = 30, 6
SHOWN_LENGTH = len(PREFIX) + 8  # enough to tell keys apart in a list, and to look one up

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase


class Scope(StrEnum):
    """What a key permits in its project; each includes those before it. An operator also looks after all projects."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    OPERATOR = "operator"

    def includes(self, other: "Scope") -> bool:
        """Whether whoever may do this may do the other.

        Examples
        --------
        >>> Scope.WRITE.includes(Scope.READ), Scope.READ.includes(Scope.WRITE)
        (True, False)
        """
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class KeySecret:
    """A key as its owner has it. Its text never goes into a log, an error or the database."""

    text: str

    def __repr__(self) -> str:
        return f"KeySecret({self.shown}…)"

    @property
    def shown(self) -> str:
        """The beginning, which may be shown."""
        return self.text[:SHOWN_LENGTH]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def new_key() -> KeySecret:
    """A key that nobody has."""
    body = PREFIX + "".join(secrets.choice(_BASE62) for _ in range(RANDOM_LENGTH))
    return KeySecret(body + _checksum(body))


def parse_key(text: str) -> KeySecret | None:
    """The key that somebody sent, unless it cannot be one.

    Examples
    --------
    >>> key = new_key()
    >>> parse_key(key.text) == key, parse_key(key.text[:-1]), parse_key("gr_" + 36 * "0")
    (True, None, None)
    """
    body, checksum = text[:-CHECKSUM_LENGTH], text[-CHECKSUM_LENGTH:]
    is_whole = len(text) == len(PREFIX) + RANDOM_LENGTH + CHECKSUM_LENGTH and text.startswith(PREFIX)
    return KeySecret(text) if is_whole and text.isascii() and checksum == _checksum(body) else None


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(reversed(digits))
