"""A .npy file is an array of floating-point numbers or it is refused; nothing is ever unpickled."""

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gramian.errors import InvalidWeights, UnsupportedDtype
from gramian.weights.formats import inspect_file
from gramian.weights.tensors import TensorInfo

Write = Callable[..., Path]


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def with_header(text: str, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin1") + data


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(("dtype", "name"), [("f8", "F64"), ("f4", "F32"), ("f2", "F16")])
def test_all_three_versions_are_read(write: Write, version: tuple[int, int], dtype: str, name: str) -> None:
    header = inspect_file(write(npy(np.ones((3, 2), dtype), version), "a.npy"))
    assert (header.format, header.tensors) == ("npy", (TensorInfo("array", name, (3, 2)),))


def test_the_content_counts_not_the_name(write: Write) -> None:
    assert inspect_file(write(npy(np.ones((3, 2))), "model.safetensors")).format == "npy"


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 2), np.int64),
        np.ones((2, 2), np.complex64),
        np.ones((2, 2), bool),
        np.zeros(2, "i4,f4"),
        np.array([["a"]]),
        np.ones((2, 2), np.uint8),
        np.ones(1, "M8[s]"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_other_numbers_are_refused_by_name(write: Write, array: np.ndarray) -> None:
    with pytest.raises(UnsupportedDtype) as caught:
        inspect_file(write(npy(array), "a.npy"))
    assert caught.value.tensor == "array"


def test_long_doubles_are_refused(write: Write) -> None:
    with pytest.raises(UnsupportedDtype):
        inspect_file(write(npy(np.ones((2, 2), np.longdouble)), "a.npy"))


def test_objects_are_refused_and_their_pickle_is_not_run(write: Write, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (tmp_path / "sprung",)

    buffer = io.BytesIO()
    np.save(buffer, np.array([[Trap()]], dtype=object), allow_pickle=True)
    with pytest.raises(UnsupportedDtype, match="object"):
        inspect_file(write(buffer.getvalue(), "a.npy"))
    assert not (tmp_path / "sprung").exists()


HOSTILE = {
    "truncated": (npy(np.ones((3, 2)))[:-1], "truncated"),
    "trailing": (npy(np.ones((3, 2))) + b"!", "belong to no array"),
    "magic only": (b"\x93NUMPY", "header"),
    "version 9": (b"\x93NUMPY\x09\x00" + b"\0" * 60, "version|header"),
    "header of 4 GiB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "header"),
    "code in the header": (with_header("__import__('os').getpid()"), "header"),
    "not a dictionary": (with_header("[1, 2, 3]"), "header"),
    "missing key": (with_header("{'descr': '<f4', 'shape': (1, 1)}"), "header"),
    "nested": (with_header("(" * 3000), "header"),
    "negative sides": (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -1)}", b"\0" * 4), "shape"),
    "wrapping sides": (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2**62, 4)}"), "header"),
    "huge sides": (
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
        "truncated",
    ),
    "boolean side": (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 1)}", b"\0" * 4), "shape"),
    "header beyond its cap": (with_header("{'descr': '<f4', " + " " * 5000), "header"),
    "unclosed": (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1"), "header"),
    "python 2 nonsense": (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, '''"), "header"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_malformed_file_is_refused_in_words(write: Write, case: str) -> None:
    content, words = HOSTILE[case]
    with pytest.raises(InvalidWeights, match=words):
        inspect_file(write(content, "a.npy"))


def test_a_name_without_the_magic_is_refused(write: Write) -> None:
    with pytest.raises(InvalidWeights, match="npy"):
        inspect_file(write(b"\0" * 100, "a.npy"))
