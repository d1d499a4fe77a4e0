"""Models on a loopback Hub: the right bytes and no others, and every fault by its name."""

import email.utils
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stamina
from huggingface_hub import constants
from safetensors.numpy import save

from gramian.errors import (
    GramianError,
    HubProtocolError,
    HubUnavailable,
    InvalidModelId,
    InvalidWeights,
    ModelAccessDenied,
    ModelNotFound,
    RevisionNotFound,
    StorageFull,
    UnsupportedFormat,
    WeightFileNotFound,
)
from gramian.weights.hub import HubIdentity, HubSource, resolve_hub
from gramian.weights.hub_errors import retry_after
from gramian.weights.vocabulary import TensorNames, Vocabulary, read_vocabulary
from tests.hub.loopback import SIGNATURE, LoopbackHub
from tests.weights.making import bf16_bytes, entry, raw_safetensors, safetensors, with_header_of

MODEL = "acme/tiny"
TOKEN = "hf_plantedtoken0123456789"
E = np.arange(3000, dtype=np.float32).reshape(1000, 3)
CONFIG = json.dumps({"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}).encode()
FILES = {"config.json": CONFIG, "model.safetensors": save({"model.embed_tokens.weight": E})}


@pytest.fixture
def commit(hub: LoopbackHub) -> str:
    return hub.add_model(MODEL, FILES)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path


def identity(commit: str, model_id: str = MODEL) -> HubIdentity:
    return HubIdentity(model_id, "main", commit)


def read(hub: LoopbackHub, commit: str, spool: Path, **options: Any) -> tuple[Vocabulary, list[np.ndarray], HubSource]:
    named = options.pop("named", None)
    with HubSource(identity(commit), endpoint=hub.endpoint, spool_dir=spool, **options) as source:
        vocabulary = read_vocabulary(source, tensors=named)
        return vocabulary, [np.concatenate(list(matrix.blocks(100))) for _, matrix in vocabulary.matrices], source


def failure(hub: LoopbackHub, commit: str, spool: Path, **options: Any) -> GramianError:
    with pytest.raises(GramianError) as caught:
        read(hub, commit, spool, **options)
    assert list(spool.iterdir()) == []
    text = f"{caught.value.message} {caught.value.hint}"
    assert "http" not in text.replace("https for", "")
    assert SIGNATURE not in text
    assert TOKEN not in text
    return caught.value


# -- resolving ------------------------------------------------------------------------------------------------


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


# -- reading --------------------------------------------------------------------------------------------------


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


# -- faults ---------------------------------------------------------------------------------------------------

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


# -- tokens ---------------------------------------------------------------------------------------------------


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


# -- content --------------------------------------------------------------------------------------------------

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
