"""The loopback Hub satisfies the real client, so that what passes against it says something."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import HfApi, get_safetensors_metadata, hf_hub_download
from huggingface_hub.errors import (
    GatedRepoError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.numpy import save

from tests.hub.loopback import LoopbackHub

BLOB = save({"wte.weight": np.ones((1000, 4), np.float32)})


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        hub.add_model("acme/tiny", {"config.json": b"{}", "sub/model.safetensors": BLOB, "model.safetensors": BLOB})
        yield hub


@pytest.mark.parametrize("redirect", [False, True])
def test_the_real_client_lists_and_downloads(hub: LoopbackHub, tmp_path: Path, redirect: bool) -> None:
    hub.reset()
    hub.faults.redirect = redirect
    info = HfApi(endpoint=hub.endpoint, token=False).model_info("acme/tiny")
    assert [sibling.rfilename for sibling in info.siblings or []] == [
        "config.json",
        "model.safetensors",
        "sub/model.safetensors",
    ]
    path = hf_hub_download(
        "acme/tiny", "sub/model.safetensors", revision=info.sha, endpoint=hub.endpoint, token=False, cache_dir=tmp_path
    )
    assert Path(path).read_bytes() == BLOB


def test_the_real_client_reads_safetensors_headers(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.reset()
    metadata = HfApi(endpoint=hub.endpoint, token=False).get_safetensors_metadata("acme/tiny")
    assert metadata.weight_map == {"wte.weight": "model.safetensors"}
    assert get_safetensors_metadata is not None


def test_the_real_client_understands_the_refusals(hub: LoopbackHub) -> None:
    hub.reset()
    api = HfApi(endpoint=hub.endpoint, token=False)
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("acme/none")
    with pytest.raises(RevisionNotFoundError):
        api.model_info("acme/tiny", revision="none")
    with pytest.raises(RemoteEntryNotFoundError):
        api.hf_hub_download("acme/tiny", "none.json")
    hub.faults.gated = True
    with pytest.raises(GatedRepoError):
        api.model_info("acme/tiny")


def test_pushes_make_new_commits_and_old_ones_stay(hub: LoopbackHub) -> None:
    hub.reset()
    first = hub.add_model("acme/moving", {"config.json": b"1"})
    second = hub.push("acme/moving", {"config.json": b"2"})
    third = hub.push("acme/moving", {"config.json": None, "new.json": b"3"})
    assert len({first, second, third}) == 3
    for commit, name, content in (
        (first, "config.json", b"1"),
        (second, "config.json", b"2"),
        (third, "new.json", b"3"),
    ):
        with urllib.request.urlopen(f"{hub.endpoint}/acme/moving/resolve/{commit}/{name}") as answer:
            assert answer.read() == content
    assert hub.body_bytes == 3
    assert len(hub.asked_for("resolve")) == 3


def test_it_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "acme" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.hub.loopback", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()
        assert HfApi(endpoint=endpoint, token=False).model_info("acme/tiny").sha
        with urllib.request.urlopen(f"{endpoint}/_control/requests") as answer:
            assert [asked["path"] for asked in json.load(answer)] == ["/api/models/acme/tiny"]
        process.communicate("")
    assert process.returncode == 0
