"""The token goes to the Hub, and nowhere else."""

import logging
from pathlib import Path

import numpy as np
import pytest

from gramian.errors import (
    ModelNotFound,
)
from gramian.weights.hub import resolve_hub
from tests.hub.loopback import SIGNATURE, LoopbackHub
from tests.weights.reading_hub import MODEL, TOKEN, E, read


def test_the_token_goes_to_the_hub_and_not_to_its_storage(hub: LoopbackHub, commit: str, spool: Path) -> None:
    hub.tokens.add(TOKEN)
    hub.faults.redirect = True
    assert resolve_hub(MODEL, "main", endpoint=hub.endpoint, token=TOKEN).commit == commit
    assert np.array_equal(read(hub, commit, spool, token=TOKEN)[1][0], E)
    by_server = {
        server: {asked.headers.get("authorization") for asked in hub.requests if asked.server == server}
        for server in ("hub", "storage")
    }
    assert by_server == {"hub": {f"Bearer {TOKEN}"}, "storage": {None}}


def test_without_a_token_the_hosts_own_is_not_sent(
    hub: LoopbackHub, commit: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    resolve_hub(MODEL, "main", endpoint=hub.endpoint)
    read(hub, commit, spool)
    assert {asked.headers.get("authorization") for asked in hub.requests} == {None}


def test_a_closed_model_hints_at_the_token(hub: LoopbackHub, commit: str, spool: Path) -> None:
    hub.tokens.add(TOKEN)
    with pytest.raises(ModelNotFound) as caught:
        resolve_hub(MODEL, "main", endpoint=hub.endpoint, token=False)
    assert "token" in (caught.value.hint or "")


def test_nothing_logged_here_holds_the_token_or_a_signature(
    hub: LoopbackHub, commit: str, spool: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    hub.faults.redirect, hub.faults.storage_status, hub.faults.times = True, 503, 2
    read(hub, commit, spool, token=TOKEN)
    captured = capfd.readouterr()
    assert "HTTP Request: GET" in caplog.text
    text = (
        captured.out
        + captured.err
        + "".join(record.getMessage() for record in caplog.records if record.name.split(".")[0] != "httpcore2")
    )
    assert TOKEN not in text
    assert SIGNATURE not in text
