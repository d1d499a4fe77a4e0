"""Files on the Hub that are not what they should be."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from gramian.errors import (
    InvalidWeights,
    RevisionNotFound,
    StorageFull,
    UnsupportedFormat,
    WeightFileNotFound,
)
from gramian.weights.hub import HubIdentity, HubSource
from tests.hub.loopback import LoopbackHub
from tests.weights.making import bf16_bytes, entry, raw_safetensors, safetensors
from tests.weights.reading_hub import CONFIG, FILES, MODEL, E, failure, read

CONTENTS = {
    "git-lfs pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n" * 2,
        InvalidWeights,
        "git-lfs",
    ),
    "page": (b"<html>" + b"x" * 600, InvalidWeights, "HTML"),
    "empty": (b"", InvalidWeights, "shorter"),
    "five bytes": (b"\1\2\3\4\5", InvalidWeights, "shorter"),
    "GGUF in disguise": (b"GGUF\x03" + b"\0" * 600, UnsupportedFormat, "GGUF"),
    "header of 2⁶³": (raw_safetensors(b"{}" + b"\xfe" * 600, length=2**63), InvalidWeights, "claim a header"),
    "truncated": (save({"wte.weight": E})[:-1], InvalidWeights, "truncated"),
    "not a header": (raw_safetensors(b"[]"), InvalidWeights, "begin with"),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_broken_files_are_named(hub: LoopbackHub, spool: Path, case: str) -> None:
    content, kind, words = CONTENTS[case]
    error = failure(hub, hub.add_model(MODEL, {"model.safetensors": content}), spool)
    assert type(error) is kind
    assert words in error.message


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.Q4_0.gguf", "embeddings.npy"])
def test_models_of_other_formats_are_refused_without_reading(hub: LoopbackHub, spool: Path, name: str) -> None:
    error = failure(hub, hub.add_model(MODEL, {"config.json": CONFIG, name: b"x" * 100}), spool)
    assert isinstance(error, UnsupportedFormat)
    assert hub.asked_for("resolve") == []


def test_an_index_that_names_missing_shards_is_refused(hub: LoopbackHub, spool: Path) -> None:
    index = json.dumps({"weight_map": {"wte.weight": "gone.safetensors"}}).encode()
    error = failure(hub, hub.add_model(MODEL, {"model.safetensors.index.json": index}), spool)
    assert isinstance(error, WeightFileNotFound)
    assert "gone.safetensors" in error.message


def test_an_oversized_configuration_is_not_read_to_its_end(hub: LoopbackHub, spool: Path) -> None:
    commit = hub.add_model(MODEL, FILES | {"config.json": b" " * (20 * 2**20)})
    assert "larger than" in failure(hub, commit, spool).message


def test_a_full_disk_is_noticed_before_the_download(
    hub: LoopbackHub, commit: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gramian.weights.hub.FREE_BYTES_TO_LEAVE", 2**60)
    assert isinstance(failure(hub, commit, spool), StorageFull)
    assert hub.body_bytes < E.nbytes


def test_only_commits_are_read_from(hub: LoopbackHub, spool: Path) -> None:
    with pytest.raises(RevisionNotFound):
        HubSource(HubIdentity(MODEL, "main", "main"), endpoint=hub.endpoint, spool_dir=spool)


def test_bfloat16_comes_through(hub: LoopbackHub, spool: Path) -> None:
    values = np.arange(64, dtype=np.float32).reshape(16, 4)
    blob = safetensors({"wte.weight": entry("BF16", [16, 4], 0, 128)}, bf16_bytes(values))
    assert np.array_equal(read(hub, hub.add_model(MODEL, {"model.safetensors": blob}), spool)[1][0], values)
