"""Models on a loopback Hub: the right bytes and no others."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from gramian.weights.hub import HubSource
from gramian.weights.vocabulary import TensorNames, read_vocabulary
from tests.hub.loopback import LoopbackHub
from tests.weights.making import entry, safetensors, with_header_of
from tests.weights.reading_hub import CONFIG, MODEL, E, identity, read


@pytest.mark.parametrize("redirect", [False, True])
def test_the_matrix_of_a_commit_is_read_even_after_a_push(
    hub: LoopbackHub, commit: str, spool: Path, redirect: bool
) -> None:
    hub.push(MODEL, {"model.safetensors": save({"model.embed_tokens.weight": -E})})
    hub.faults.redirect = redirect
    vocabulary, (rows,), source = read(hub, commit, spool)
    assert np.array_equal(rows, E)
    assert vocabulary.tying.finding == "tied"
    assert vocabulary.config == json.loads(CONFIG)
    assert source.bytes_fetched == hub.body_bytes
    assert all(commit in asked.path for asked in hub.requests if asked.server == "hub")
    assert list(spool.iterdir()) == []


def test_spooled_tensors_exist_only_inside_the_context(hub: LoopbackHub, commit: str, spool: Path) -> None:
    with HubSource(identity(commit), endpoint=hub.endpoint, spool_dir=spool) as source:
        vocabulary = read_vocabulary(source)
        assert [path.stat().st_size for path in spool.iterdir()] == [E.nbytes]
        assert vocabulary.matrices[0][1].path.parent == spool
    assert list(spool.iterdir()) == []


@pytest.fixture
def large(hub: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """A 32000 × 1024 bfloat16 embedding in the second of two shards, among tensors that nobody asked for."""
    folder = tmp_path_factory.mktemp("large")
    nbytes = 32_000 * 1024 * 2
    first = {f"model.layers.{i}.w": entry("BF16", [1000, 1000], 2 * 10**6 * i, 2 * 10**6 * (i + 1)) for i in range(10)}
    second = {
        "model.layers.10.w": entry("BF16", [1000, 1000], 0, 2 * 10**6),
        "model.embed_tokens.weight": entry("BF16", [32_000, 1024], 2 * 10**6, 2 * 10**6 + nbytes),
        "model.norm.weight": entry("BF16", [10**6], 2 * 10**6 + nbytes, 4 * 10**6 + nbytes),
    }
    names = {}
    for name, header in (("one.safetensors", first), ("two.safetensors", second)):
        path = folder / name
        path.write_bytes(safetensors(header))
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + max(t["data_offsets"][1] for t in header.values()))
        names |= dict.fromkeys(header, name)
    index = json.dumps({"weight_map": names}).encode()
    files: dict[str, bytes | Path] = {"config.json": CONFIG, "model.safetensors.index.json": index}
    return hub.add_model("acme/large", files | {n: folder / n for n in ("one.safetensors", "two.safetensors")}), nbytes


def test_little_more_than_the_tensor_itself_is_fetched(hub: LoopbackHub, large: tuple[str, int], spool: Path) -> None:
    commit, nbytes = large
    hub.faults.redirect = True
    with HubSource(identity(commit, "acme/large"), endpoint=hub.endpoint, spool_dir=spool) as source:
        seen: list[tuple[int, int]] = []
        vocabulary = read_vocabulary(source, progress=lambda done, total: seen.append((done, total)))
        assert vocabulary.matrices[0][1].nbytes == nbytes
    assert nbytes < source.bytes_fetched <= 1.01 * nbytes
    assert hub.body_bytes == source.bytes_fetched
    assert hub.asked_for("one.safetensors") == []
    assert seen[-1] == (nbytes, nbytes)
    assert seen == sorted(seen)


@pytest.mark.parametrize("size", [99_994, 100_000])
def test_exactly_the_header_is_fetched(hub: LoopbackHub, spool: Path, size: int) -> None:
    commit = hub.add_model(MODEL, {"model.safetensors": with_header_of(size)})
    read(hub, commit, spool)
    ranges = [asked.headers["range"] for asked in hub.asked_for("model.safetensors")]
    assert ranges == ["bytes=0-7", f"bytes=8-{size + 7}", f"bytes={size + 8}-{size + 23}"]
    assert all(asked.headers["accept-encoding"] == "identity" for asked in hub.asked_for("resolve"))


def test_untied_matrices_are_both_fetched_and_compared(hub: LoopbackHub, spool: Path) -> None:
    blob = save({"model.embed_tokens.weight": E, "lm_head.weight": E + 1})
    vocabulary, rows, _ = read(hub, hub.add_model(MODEL, {"model.safetensors": blob}), spool)
    assert vocabulary.tying.finding == "untied"
    assert np.array_equal(rows[1], E + 1)


def test_naming_one_matrix_fetches_only_that(hub: LoopbackHub, spool: Path) -> None:
    blob = save({"model.embed_tokens.weight": E, "lm_head.weight": E + 1})
    commit = hub.add_model(MODEL, {"model.safetensors": blob})
    vocabulary, _, source = read(hub, commit, spool, named=TensorNames(output="lm_head.weight"))
    assert vocabulary.tying.finding == "not_compared"
    assert source.bytes_fetched < E.nbytes + 1000


def test_a_module_folder_on_the_hub_is_found(hub: LoopbackHub, spool: Path) -> None:
    files = {
        "modules.json": b'[{"idx": 0, "path": "0_StaticEmbedding"}]',
        "0_StaticEmbedding/model.safetensors": save({"embedding.weight": E}),
        "0_StaticEmbedding/config.json": b"{}",
    }
    vocabulary, (rows,), _ = read(hub, hub.add_model(MODEL, files), spool)
    assert np.array_equal(rows, E)
    assert vocabulary.config == {}
