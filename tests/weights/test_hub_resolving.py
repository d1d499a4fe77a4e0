"""From a model id and a revision to a commit, and the refusals on the way."""

import email.utils
import time
from pathlib import Path

import pytest
from huggingface_hub import constants

from gramian.errors import (
    HubProtocolError,
    HubUnavailable,
    InvalidModelId,
    ModelAccessDenied,
    ModelNotFound,
    RevisionNotFound,
)
from gramian.weights.hub import HubIdentity, resolve_hub
from gramian.weights.hub_errors import retry_after
from tests.hub.loopback import LoopbackHub
from tests.weights.reading_hub import FILES, MODEL, TOKEN, failure


def test_a_branch_resolves_to_its_commit_and_later_to_its_next(hub: LoopbackHub, commit: str) -> None:
    assert resolve_hub(MODEL, "main", endpoint=hub.endpoint) == HubIdentity(MODEL, "main", commit)
    assert resolve_hub(MODEL, None, endpoint=hub.endpoint).commit == commit
    assert resolve_hub(MODEL, commit, endpoint=hub.endpoint).commit == commit
    pushed = hub.push(MODEL, {"config.json": b"{}"})
    assert pushed != commit
    assert resolve_hub(MODEL, "main", endpoint=hub.endpoint).commit == pushed


def test_revisions_with_slashes_are_one_path_segment(hub: LoopbackHub, commit: str) -> None:
    branch = hub.add_model(MODEL, FILES, revision="refs/pr/1")
    assert resolve_hub(MODEL, "refs/pr/1", endpoint=hub.endpoint).commit == branch


@pytest.mark.parametrize(
    "model_id", ["", "a/b/c", "../x", "a b", "x--y", "a/..", "x" * 100, "acme/tiny.git", "café", "a\n"]
)
def test_malformed_ids_are_refused_without_a_request(hub: LoopbackHub, model_id: str) -> None:
    with pytest.raises(InvalidModelId):
        resolve_hub(model_id, "main", endpoint=hub.endpoint)
    assert hub.requests == []


@pytest.mark.parametrize("revision", ["", ".", "..", "a\nb", "\ud800", "x" * 300])
def test_impossible_revisions_are_refused_without_a_request(hub: LoopbackHub, commit: str, revision: str) -> None:
    with pytest.raises(RevisionNotFound):
        resolve_hub(MODEL, revision, endpoint=hub.endpoint)
    assert hub.requests == []


FAULTS_AT_RESOLUTION = {
    "gated": ({"gated": True}, ModelAccessDenied, "gated"),
    "disabled": ({"disabled": True}, ModelAccessDenied, "disabled"),
    "401 of an http endpoint": ({"bare_401": True}, ModelNotFound, "missing, private, or gated"),
    "token not accepted": ({"bad_token": True}, ModelAccessDenied, "token"),
    "503": ({"api_status": 503}, HubUnavailable, "503"),
    "429": ({"api_status": 429, "retry_after": "7"}, HubUnavailable, "rate"),
    "400": ({"api_status": 400}, HubProtocolError, "400"),
    "403": ({"api_status": 403}, ModelAccessDenied, "refuses"),
    "404 of another server": ({"api_status": 404}, ModelNotFound, "no model"),
    "a page": ({"api_body": "<html>"}, HubProtocolError, "commit"),
    "an array": ({"api_body": "[]"}, HubProtocolError, "commit"),
    "no commit": ({"api_body": '{"id": "acme/tiny"}'}, HubProtocolError, "commit"),
    "a short commit": ({"api_body": '{"id": "acme/tiny", "sha": "abc"}'}, HubProtocolError, "commit"),
}


@pytest.mark.parametrize("case", FAULTS_AT_RESOLUTION)
def test_refusals_at_resolution_are_told_apart(hub: LoopbackHub, commit: str, case: str) -> None:
    faults, kind, words = FAULTS_AT_RESOLUTION[case]
    for name, value in faults.items():
        setattr(hub.faults, name, value)
    with pytest.raises(kind, match=words) as caught:
        resolve_hub(MODEL, "main", endpoint=hub.endpoint, token=TOKEN)
    assert TOKEN not in f"{caught.value} {caught.value.hint}"
    assert caught.value.hint
    assert len(hub.requests) == 1


def test_what_does_not_exist_is_named(hub: LoopbackHub, commit: str) -> None:
    with pytest.raises(ModelNotFound, match="acme/other"):
        resolve_hub("acme/other", "main", endpoint=hub.endpoint)
    with pytest.raises(RevisionNotFound, match="v9"):
        resolve_hub(MODEL, "v9", endpoint=hub.endpoint)


def test_the_wait_that_the_hub_names_is_kept(hub: LoopbackHub, commit: str) -> None:
    hub.faults.api_status, hub.faults.retry_after = 429, "7"
    with pytest.raises(HubUnavailable) as caught:
        resolve_hub(MODEL, "main", endpoint=hub.endpoint)
    assert caught.value.retry_after == 7
    assert caught.value.transient


def test_retry_after_is_read_in_all_its_forms() -> None:
    assert retry_after({"retry-after": "120"}) == 120
    assert retry_after({"ratelimit": '"resolvers";r=0;t=55', "retry-after": "1"}) == 55
    assert retry_after({"ratelimit": '"resolvers";r=9;t=55'}) is None
    moment = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert retry_after({"retry-after": moment}) == pytest.approx(30, abs=2)
    assert retry_after({"retry-after": "soon"}) is None


def test_a_hub_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(HubUnavailable, match="ConnectError") as caught:
        resolve_hub(MODEL, "main", endpoint="http://127.0.0.1:9", timeout=2)
    assert "127.0.0.1" not in caught.value.message


def test_a_slow_hub_is_unavailable(hub: LoopbackHub, commit: str) -> None:
    hub.faults.delay_seconds = 1
    with pytest.raises(HubUnavailable, match="Timeout"):
        resolve_hub(MODEL, "main", endpoint=hub.endpoint, timeout=0.1)


def test_offline_mode_is_named_and_not_retried(
    hub: LoopbackHub, commit: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubUnavailable, match="HF_HUB_OFFLINE") as caught:
        resolve_hub(MODEL, "main", endpoint=hub.endpoint)
    assert not caught.value.transient
    assert "HF_HUB_OFFLINE" in failure(hub, commit, spool).message
