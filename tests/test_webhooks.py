"""What is sent: signed so that the specification's library verifies it, and tried again in its own time."""

import json
import math
import os
import re
import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook, WebhookVerificationError

from gramian.sealing import Seal, SealBroken, key_in
from gramian.settings import Settings
from gramian.webhooks import (
    SCHEDULE_SECONDS,
    new_secret,
    parse_retry_after,
    seconds_to_next,
    signed_headers,
    write_payload,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
def test_the_specifications_library_verifies_a_signature_made_in_any_time_zone(zone) -> None:
    secret, payload = new_secret(), write_payload("x", {"ü": "€"}, at=NOW)
    headers = signed_headers("msg_1", payload, at=datetime.now(zone), signing_secrets=[secret])
    assert Webhook(secret).verify(payload, headers) == {
        "type": "x",
        "timestamp": "2026-01-01T00:00:00Z",
        "data": {"ü": "€"},
    }
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(payload + " ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(payload, headers)


def test_the_documents_ten_lines_verify() -> None:
    document = (Path(__file__).parents[1] / "docs" / "webhooks.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    found: dict = {}
    exec(compile(snippet, "docs/webhooks.md", "exec"), found)  # noqa: S102
    secret, payload = new_secret(), write_payload("x", {}, at=NOW)
    headers = signed_headers("msg_1", payload, at=datetime.now(UTC), signing_secrets=[secret])
    assert found["read"](headers, payload.encode(), secret)["type"] == "x"
    assert found["read"](headers, payload.encode() + b" ", secret) is None


def test_every_live_secret_signs() -> None:
    secrets, payload = [new_secret(), new_secret()], write_payload("x", {}, at=NOW)
    headers = signed_headers("msg_1", payload, at=datetime.now(UTC), signing_secrets=secrets)
    for secret in secrets:
        Webhook(secret).verify(payload, headers)


def test_a_secret_is_whsec_and_32_bytes_that_nobody_has_had() -> None:
    import base64

    found = {new_secret() for _ in range(100)}
    assert len(found) == 100
    assert all(len(base64.b64decode(secret.removeprefix("whsec_"))) == 32 for secret in found)


def test_a_payload_is_strict_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_payload("x", {"value": math.nan}, at=NOW)
    assert json.loads(write_payload("x", {"value": None}, at=NOW))["data"] == {"value": None}


def test_the_schedule_is_the_specifications() -> None:
    hours = [round(seconds / 3600, 4) for seconds in SCHEDULE_SECONDS]
    assert hours == [0, 0.0014, 0.0833, 0.5, 2, 5, 10, 14, 20, 24]
    waits = [seconds_to_next(tries) for tries in range(1, 11)]
    assert waits == [*SCHEDULE_SECONDS[1:], None]


def test_jitter_makes_a_wait_longer_never_shorter() -> None:
    assert [seconds_to_next(3, jitter=jitter) for jitter in (0.0, 0.5, 1.0)] == pytest.approx([1800, 1890, 1980])


def test_patience_that_is_asked_for_is_given_up_to_a_day_and_never_shortens_a_wait() -> None:
    assert seconds_to_next(1, asked=60) == 60
    assert seconds_to_next(3, asked=60) == 1800
    assert seconds_to_next(1, asked=1e9) == 86_400


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        ("9" * 400, 86_400),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120),
        ("Thu, 01 Jan 2026 00:02:00", 120),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0),
        ("-5", None),
        ("1.5", None),
        ("²", None),
        ("", None),
        (None, None),
        ("soon", None),
        ("Thu, 99 Jan 2026 00:02:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, seconds) -> None:
    assert parse_retry_after(value, now=NOW) == seconds


# -- secrets at rest ------------------------------------------------------------------------------------------


def test_a_sealed_secret_is_opened_by_its_key_alone() -> None:
    seal = Seal(b"k" * 32)
    sealed = seal.close("whsec_x")
    assert "whsec" not in sealed
    assert Seal(b"k" * 32).open(sealed) == "whsec_x"
    for other in (Seal(b"l" * 32).open, lambda text: seal.open(text[:-2])):
        with pytest.raises(SealBroken, match="another key"):
            other(sealed)


def test_the_folders_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    key = key_in(folder)
    assert key_in(folder) == key
    assert len(key) == 44
    assert stat.S_IMODE((folder / "secret.key").stat().st_mode) == 0o600
    assert os.listdir(folder) == ["secret.key"]  # noqa: PTH208


def test_the_operators_key_comes_before_the_folders(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, secret_key="s" * 32)
    assert settings.sealing_key() == b"s" * 32
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValidationError):
        Settings(secret_key="short")


# -- settings -------------------------------------------------------------------------------------------------


def test_inner_receivers_are_named_by_address_or_network() -> None:
    found = Settings(webhook_allow="10.0.0.0/8, 127.0.0.1,fd00::/8").webhook_networks
    assert [str(network) for network in found] == ["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"]
    for text in ("localhost", "10.0.0.1/8", "10.0.0.0/33"):
        with pytest.raises(ValidationError):
            Settings(webhook_allow=text)


def test_the_schedule_can_be_set_and_is_checked() -> None:
    assert Settings().webhook_schedule == SCHEDULE_SECONDS
    assert Settings(webhook_schedule_seconds="0, 1.5").webhook_schedule == (0, 1.5)
    for text in ("", "a", "0,-1", "0,inf", "0,nan"):
        with pytest.raises(ValidationError):
            Settings(webhook_schedule_seconds=text)
