"""One attempt to deliver a webhook: a signed request, and what came of it."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx2

import gramian
from gramian.egress import TIMEOUT_SECONDS, AddressForbidden, Guard, guarded_client
from gramian.errors import GramianError
from gramian.sealing import Seal, SealBroken
from gramian.storage.deliveries import Attempt, Parcel
from gramian.webhooks import parse_retry_after, signed_headers

MOST_READ_BYTES = 4096  # of an answer, whatever it says
MOST_KEPT_CHARACTERS = 500

USER_AGENT = f"Gramian/{gramian.__version__} (webhooks)"


@dataclass(frozen=True)
class Answer:
    """What is written down of an attempt, and how long the receiver asked to wait."""

    attempt: Attempt
    retry_after: float | None = None


class Sender:
    """Sends parcels to addresses that the guard permits. May be shared by threads."""

    def __init__(self, guard: Guard, seal: Seal, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._client = guarded_client(guard, timeout=timeout)
        self._seal = seal

    def close(self) -> None:
        self._client.close()

    def send(self, parcel: Parcel) -> Answer:
        """Make the attempt. What goes wrong is part of the answer."""
        at, started = datetime.now(UTC), time.monotonic()

        def attempt(headers: dict[str, str], **outcome: object) -> Attempt:
            return Attempt(at, time.monotonic() - started, parcel.url, headers, **outcome)  # type: ignore[arg-type]

        try:
            signing_secrets = [self._seal.open(sealed) for sealed in parcel.sealed_secrets]
        except SealBroken as error:
            return Answer(attempt({}, error=_facts(error)))
        headers = {"content-type": "application/json", "user-agent": USER_AGENT} | signed_headers(
            parcel.message_id, parcel.payload, at=at, signing_secrets=signing_secrets
        )
        try:
            with self._client.stream("POST", parcel.url, content=parcel.payload.encode(), headers=headers) as response:
                body = _beginning(response)
        except AddressForbidden as error:
            return Answer(attempt(headers, error=_facts(error)))
        except (httpx2.TransportError, httpx2.InvalidURL, UnicodeError) as error:
            return Answer(attempt(headers, error={"code": _code(error), "detail": _clipped(str(error))}))
        wait = parse_retry_after(response.headers.get("retry-after"), now=at)
        return Answer(attempt(headers, response_status=response.status_code, response_body=body), wait)


def _beginning(response: httpx2.Response) -> str:
    """The start of an answer's text. A status that came counts, even if what should follow does not come."""
    found = b""
    try:
        for part in response.iter_raw():
            found += part[: MOST_READ_BYTES - len(found)]
            if len(found) >= MOST_READ_BYTES:
                break
    except httpx2.TransportError:
        pass
    return _clipped(found.decode(errors="replace"))


def _clipped(text: str) -> str:
    readable = "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)
    return readable[:MOST_KEPT_CHARACTERS]


def _code(error: Exception) -> str:
    match error:
        case httpx2.TimeoutException():
            return "timeout"
        case httpx2.ConnectError():
            return "no_connection"
        case httpx2.TransportError():
            return "connection_lost"
        case _:
            return "invalid_url"


def _facts(error: GramianError) -> dict[str, str]:
    return {"code": error.code, "detail": error.message}
