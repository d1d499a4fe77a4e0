"""Every fault of a Hub by its name; what passes is overcome."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stamina

from gramian.errors import (
    HubProtocolError,
    HubUnavailable,
    ModelAccessDenied,
    ModelNotFound,
    WeightFileNotFound,
)
from tests.hub.loopback import LoopbackHub
from tests.weights.making import entry, safetensors
from tests.weights.reading_hub import MODEL, TOKEN, E, failure, read

FAULTS = {
    "Range ignored": ({"ignore_range": True}, HubProtocolError, "200 instead of 206"),
    "range shifted": ({"content_range": "shifted"}, HubProtocolError, "Content-Range"),
    "range shortened": ({"content_range": "short"}, HubProtocolError, "Content-Range"),
    "total unknown": ({"content_range": "unknown_total"}, HubProtocolError, "Content-Range"),
    "no range header": ({"content_range": "missing"}, HubProtocolError, "Content-Range"),
    "total changes": ({"content_range": "growing_total"}, HubProtocolError, "length of model.safetensors changed"),
    "short body": ({"short": True}, HubProtocolError, "Content-Range"),
    "tag changes": ({"etag": "changing"}, HubProtocolError, "entity tag of model.safetensors changed"),
    "weak tag": ({"etag": "weak"}, HubProtocolError, "strong entity tag"),
    "no tag": ({"etag": "missing"}, HubProtocolError, "strong entity tag"),
    "other commit": ({"wrong_commit": True}, HubProtocolError, "asked for commit"),
    "compressed": ({"gzip_label": True}, HubProtocolError, "content encoding"),
    "truncated again and again": ({"truncate": 4}, HubUnavailable, "did not answer in full"),
    "503": ({"status": 503}, HubUnavailable, "503"),
    "429": ({"status": 429, "retry_after": "5"}, HubUnavailable, "rate"),
    "API down": ({"api_status": 502}, HubUnavailable, "502"),
    "API is a page": ({"api_body": "<html>"}, HubProtocolError, "description of the model is not JSON"),
    "gated": ({"gated": True}, ModelAccessDenied, "gated"),
    "401": ({"bare_401": True}, ModelNotFound, "missing, private, or gated"),
    "file forbidden": ({"status": 403}, ModelAccessDenied, "refuses"),
    "file gone": ({"status": 404}, WeightFileNotFound, "config.json"),
    "redirect loop": ({"redirect_loop": True}, HubProtocolError, "redirected more than"),
    "storage refuses": ({"redirect": True, "storage_status": 403}, HubUnavailable, "storage"),
    "storage changes tag": ({"redirect": True, "etag": "changing"}, HubProtocolError, "entity tag"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_has_its_error(hub: LoopbackHub, commit: str, spool: Path, case: str) -> None:
    faults, kind, words = FAULTS[case]
    for name, value in faults.items():
        setattr(hub.faults, name, value)
    error = failure(hub, commit, spool, token=TOKEN)
    assert type(error) is kind
    assert words in error.message


def test_a_whole_file_in_answer_to_a_range_is_not_read(hub: LoopbackHub, spool: Path, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("big") / "model.safetensors"
    path.write_bytes(safetensors({"wte.weight": entry("F32", [2**20, 16], 0, 2**26)}))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 2**26)
    commit = hub.add_model(MODEL, {"model.safetensors": path})
    hub.faults.ignore_range = True
    failure(hub, commit, spool)
    assert hub.body_bytes < 2**25


def test_transient_failures_are_overcome(hub: LoopbackHub, commit: str, spool: Path) -> None:
    for faults in (
        {"status": 503, "times": 3},
        {"api_status": 500, "times": 2},
        {"status": 429, "retry_after": "9", "times": 1},
    ):
        hub.reset()
        for name, value in faults.items():
            setattr(hub.faults, name, value)
        assert np.array_equal(read(hub, commit, spool)[1][0], E)


def test_a_broken_transfer_goes_on_where_it_stopped(hub: LoopbackHub, commit: str, spool: Path) -> None:
    hub.faults.truncate, hub.faults.truncate_times = 5000, 2
    _, (rows,), source = read(hub, commit, spool)
    assert np.array_equal(rows, E)
    resumed = [asked.headers["range"] for asked in hub.asked_for("model.safetensors")][2:]
    starts = [int(given.removeprefix("bytes=").split("-")[0]) for given in resumed]
    assert len(starts) == 3
    assert starts == sorted(starts)
    assert starts[2] > starts[0]
    assert source.bytes_fetched <= hub.body_bytes


def test_attempts_are_bounded(hub: LoopbackHub, commit: str, spool: Path) -> None:
    hub.faults.status = 503
    failure(hub, commit, spool)
    assert len(hub.asked_for("config.json")) == 4


def test_a_wait_of_minutes_is_left_to_the_queue(hub: LoopbackHub, commit: str, spool: Path) -> None:
    hub.faults.status, hub.faults.retry_after = 429, "300"
    error = failure(hub, commit, spool)
    assert isinstance(error, HubUnavailable)
    assert error.retry_after == 300
    assert len(hub.asked_for("config.json")) == 1


def test_the_wait_named_by_the_hub_is_waited(hub: LoopbackHub, commit: str, spool: Path) -> None:
    hub.faults.status, hub.faults.retry_after, hub.faults.times = 503, "1", 1
    with stamina.set_testing(False):
        started = time.monotonic()
        read(hub, commit, spool)
        assert time.monotonic() - started >= 1
