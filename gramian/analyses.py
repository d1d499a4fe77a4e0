"""What an analysis is: the identity of its question, and the states it passes through."""

import hashlib
import json
import secrets
import time
from enum import StrEnum
from typing import Any

from gramian.specs import Spec


class Status(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)

#: One live or succeeded analysis answers a question; a failed or cancelled one does not stand in its way.
ANSWERING = (Status.QUEUED, Status.RUNNING, Status.SUCCEEDED)


def dedupe_key(spec: Spec, identity: str | None = None) -> str:
    """Digest of the whole question: what is read, if anything (`identity`), how, and by which method."""
    question = spec.parameters() | {"method_version": spec.method_version}
    if identity is not None:
        question["identity"] = identity
    return hashlib.sha256(canonical_json(question).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """An opaque id that sorts by time: 48 bits of milliseconds, 80 of randomness, in base 32."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return f"{prefix}_" + "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
