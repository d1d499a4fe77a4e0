"""Tokens by their ids, from each file that is read, and from files that are not what they should be."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from gramian.errors import GramianError, InvalidWeights, TokenizerMissing
from gramian.weights.sources import FolderSource
from gramian.weights.tokenizers import MAX_TOKENIZER_BYTES, read_tokens

WEIGHTS = save({"wte.weight": np.ones((4, 2), np.float32)})


def folder(tmp_path: Path, **files: str | bytes) -> FolderSource:
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS)
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / name.replace("__", ".")).write_bytes(raw)
    return FolderSource(tmp_path)


def test_a_dictionary_of_tokens_with_added_ones(tmp_path: Path) -> None:
    described = {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 2}, "merges": []},
        "added_tokens": [{"id": 3, "content": "<unused7>"}, {"id": 0, "content": "<s>"}],
    }
    tokens = read_tokens(folder(tmp_path, tokenizer__json=json.dumps(described)))
    assert dict(tokens.texts) == {0: "<s>", 2: "b", 3: "<unused7>"}
    assert (tokens.rows, tokens.unused, tokens.file) == (4, [3], "tokenizer.json")


def test_a_list_of_tokens_with_scores(tmp_path: Path) -> None:
    described = {"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁a", -1.5]]}}
    assert dict(read_tokens(folder(tmp_path, tokenizer__json=json.dumps(described))).texts) == {0: "<unk>", 1: "▁a"}


def test_older_files(tmp_path: Path) -> None:
    source = folder(tmp_path, vocab__txt="[PAD]\n[unused0]\nthe\r\n ö\n")
    tokens = read_tokens(source)
    assert dict(tokens.texts) == {0: "[PAD]", 1: "[unused0]", 2: "the", 3: " ö"}
    assert tokens.unused == [1]
    source = folder(tmp_path, vocab__json='{"a": 1, "b": 0}', added_tokens__json='{"<x>": 2}')
    assert dict(read_tokens(source).texts) == {0: "b", 1: "a", 2: "<x>"}


@pytest.mark.parametrize(
    "name", ["[unused0]", "<unused99>", "<|reserved_special_token_3|>", "madeupword0001", "<reserved_12>", "[UNUSED]"]
)
def test_names_of_slots_for_nothing(tmp_path: Path, name: str) -> None:
    assert read_tokens(folder(tmp_path, vocab__json=json.dumps({name: 5}))).unused == [5]


@pytest.mark.parametrize("name", ["unused", "the", "<pad>", "<|endoftext|>", "[unused", "reserved", "<extra_id_0>"])
def test_names_of_words_and_of_tokens_that_are_used(tmp_path: Path, name: str) -> None:
    assert read_tokens(folder(tmp_path, vocab__json=json.dumps({name: 5}))).unused == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"{}",
        b'{"model": []}',
        b'{"model": {"vocab": 3}}',
        b'{"model": {"vocab": {"a": -1}}}',
        b'{"model": {"vocab": {"a": 1e3}}}',
        b'{"model": {"vocab": {"a": true}}}',
        b'{"model": {"vocab": {"a": 99999999999}}}',
        b'{"model": {"vocab": {"a": 0, "a": 1}}}',
        b'{"model": {"vocab": [["a"], 3]}}',
        b'{"model": {"vocab": [[]]}}',
        b'{"model": {"vocab": {}}, "added_tokens": {"a": 1}}',
        b'{"model": {"vocab": {}}, "added_tokens": [{"content": "a"}]}',
        b'{"model": {"vocab": ' + b"[" * 100_000,
        b'{"model": {"vocab": [' + b"[]," * 2**23 + b"[]]}}",
    ],
    ids=range(17),
)
def test_what_is_no_tokenizer_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidWeights, match=r"tokenizer\.json"):
        read_tokens(folder(tmp_path, tokenizer__json=content))


def test_a_file_of_any_size_is_not_read(tmp_path: Path) -> None:
    source = folder(tmp_path)
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(MAX_TOKENIZER_BYTES + 1)
    with pytest.raises(InvalidWeights, match="larger than"):
        read_tokens(source)


def test_no_tokenizer_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(TokenizerMissing, match=r"vocab\.txt"):
        read_tokens(folder(tmp_path))
    (tmp_path / "tokenizer.json").symlink_to("/etc/hostname")
    with pytest.raises(GramianError, match=r"tokenizer\.json"):
        read_tokens(folder(tmp_path))
