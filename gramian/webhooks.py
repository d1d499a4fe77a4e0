"""Webhooks by the Standard Webhooks specification 1.0.0: what they tell, how they are signed, when they are tried."""

import base64
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, Final, Literal, get_args

from standardwebhooks import Webhook, WebhookVerificationError

AnalysisEvent = Literal["analysis.succeeded", "analysis.failed", "analysis.cancelled"]
EventType = Literal[AnalysisEvent, "model.epsilon_shifted", "model.class_changed"]
EVENT_TYPES: tuple[str, ...] = get_args(EventType)

PING = "webhook.ping"
EVERY_EVENT: Final = "*"

SECRET_PREFIX = "whsec_"  # noqa: S105  (no secret)
SECRET_BYTES = 32  # the specification asks for 24 to 64
LONGEST_PAYLOAD_BYTES = 20_000  # the specification's advice: a webhook tells that something happened, not all of it
LONGEST_WAIT_SECONDS = 86_400.0  # for a receiver that asks for patience

#: Seconds before each attempt, counted from the one before.
SCHEDULE_SECONDS = (0.0, 5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def is_secret(text: str) -> bool:
    """Whether this can sign: `whsec_` and 24 to 64 bytes in base64."""
    try:
        found = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        return False
    return text.startswith(SECRET_PREFIX) and 24 <= len(found) <= 64


def is_signed(body: bytes, headers: Mapping[str, str], *, secret: str) -> bool:
    """Whether a message is signed with this secret, within these minutes."""
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):  # a header or a body that the library cannot take apart
        return False
    return True


def wants(events: Sequence[str], type: str) -> bool:
    """Whether a receiver of these events is told of this one."""
    return EVERY_EVENT in events or type in events


def write_payload(type: str, data: dict[str, Any], *, at: datetime) -> str:
    """The body, letter by letter as it is signed and sent, however often."""
    told = {"type": type, "timestamp": at.isoformat().replace("+00:00", "Z"), "data": data}
    return json.dumps(told, separators=(",", ":"), allow_nan=False)


def signed_headers(message_id: str, payload: str, *, at: datetime, signing_secrets: Iterable[str]) -> dict[str, str]:
    """The three headers; one signature a secret, so that receivers can change over.

    `message_id` stays the same over all attempts, `at` is the attempt's own time.
    """
    at = at.astimezone(UTC)  # the library takes any other zone for UTC
    signatures = [Webhook(secret).sign(message_id, at, payload) for secret in signing_secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


class Verdict(Enum):
    """What a receiver's answer means."""

    DELIVERED = "delivered"
    FAILED = "failed"  # try again
    GONE = "gone"  # it wants no more


def judge(status: int | None) -> Verdict:
    """Only 2xx is success; a redirect is not followed, and so a failure; None is no answer at all.

    Examples
    --------
    >>> [judge(status).value for status in (204, 301, 410, 503, None)]
    ['delivered', 'failed', 'gone', 'failed', 'failed']
    """
    if status is not None and 200 <= status < 300:
        return Verdict.DELIVERED
    return Verdict.GONE if status == 410 else Verdict.FAILED


def seconds_to_next(
    tries: int, *, schedule: Sequence[float] = SCHEDULE_SECONDS, asked: float | None = None, jitter: float = 0.0
) -> float | None:
    """How long to wait after so many failed attempts; None if that was the last one.

    A receiver that asked for patience (`Retry-After`) gets it. `jitter`, from 0 to 1, makes the wait up to a tenth
    longer, so that what failed together is not tried again together.

    Examples
    --------
    >>> seconds_to_next(1), seconds_to_next(2, asked=900), seconds_to_next(10)
    (5.0, 900.0, None)
    """
    if tries >= len(schedule):
        return None
    wait = schedule[tries] * (1 + jitter / 10)
    return float(max(wait, min(asked or 0.0, LONGEST_WAIT_SECONDS)))


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number of them, or a date.

    Examples
    --------
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> parse_retry_after("120", now=now), parse_retry_after("Thu, 01 Jan 2026 00:01:00 GMT", now=now)
    (120.0, 60.0)
    >>> parse_retry_after("soon", now=now)
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_WAIT_SECONDS)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())
