"""Formats that are not read are called by their names, whatever the file is called."""

import gzip
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gramian.errors import InvalidWeights, UnsupportedFormat
from gramian.weights.formats import inspect_file

Write = Callable[..., Path]


def torch_zip() -> bytes:
    buffer = io.BytesIO()
    torch.save({"wte.weight": torch.ones(2, 2)}, buffer)
    return buffer.getvalue()


def torch_legacy() -> bytes:
    buffer = io.BytesIO()
    torch.save({"wte.weight": torch.ones(2, 2)}, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones((2, 2)))
    return buffer.getvalue()


def plain_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("readme.txt", "x" * 100)
    return buffer.getvalue()


BY_CONTENT = {
    "GGUF": (b"GGUF\x03\0\0\0\x7b" + b"\0" * 100, "GGUF"),  # 123 tensors: byte 8 is the brace of a safetensors header
    "torch zip": (torch_zip(), "PyTorch"),
    "torch legacy": (torch_legacy(), "PyTorch"),
    "pickle": (pickle.dumps({"a": 1}), "PyTorch"),
    "npz": (npz(), "npz"),
    "zip": (plain_zip(), "zip"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 50, "HDF5"),
    "gzip": (gzip.compress(b"x" * 100), "gzip"),
    "ONNX": (b"\x08\x07\x12\x07pytorch\x1a\x051.9.0" + b"\xff" * 60, "ONNX"),
    "msgpack": (b"\x81\xa6params\x81\xa3wte\x81" + b"\xff\xfe" * 40, "msgpack"),
}


@pytest.mark.parametrize("case", BY_CONTENT)
@pytest.mark.parametrize("filename", ["model.safetensors", "weights", "a.npy"])
def test_the_content_names_the_format(write: Write, case: str, filename: str) -> None:
    content, name = BY_CONTENT[case]
    with pytest.raises(UnsupportedFormat, match=name) as caught:
        inspect_file(write(content), filename=filename)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("m.gguf", "GGUF"),
        ("pytorch_model.bin", "PyTorch"),
        ("m.pt", "PyTorch"),
        ("m.PTH", "PyTorch"),
        ("m.onnx", "ONNX"),
        ("tf_model.h5", "HDF5"),
        ("flax_model.msgpack", "msgpack"),
        ("a.npz", "npz"),
    ],
)
def test_the_name_decides_where_the_content_says_nothing(write: Write, filename: str, name: str) -> None:
    with pytest.raises(UnsupportedFormat, match=name):
        inspect_file(write(b"\xfe\xdc\xba\x98" * 30), filename=filename)


def test_pickled_checkpoints_come_with_the_way_out(write: Write) -> None:
    with pytest.raises(UnsupportedFormat) as caught:
        inspect_file(write(torch_zip(), "pytorch_model.bin"))
    assert "safetensors" in (caught.value.hint or "")


def test_a_safetensors_header_of_640_bytes_is_not_mistaken_for_a_pickle(write: Write) -> None:
    from tests.weights.making import with_header_of

    content = with_header_of(640)
    assert content[:2] == b"\x80\x02"
    assert inspect_file(write(content, "weights")).format == "safetensors"


def test_unknown_bytes_are_shown(write: Write) -> None:
    with pytest.raises(InvalidWeights, match="fe dc ba 98"):
        inspect_file(write(b"\xfe\xdc\xba\x98" * 30, "weights"))


@pytest.mark.parametrize("filename", ["pytorch_model.bin", "model.gguf"])
def test_a_git_lfs_pointer_is_named_whatever_it_stands_for(write: Write, filename: str) -> None:
    with pytest.raises(InvalidWeights, match="git-lfs pointer"):
        inspect_file(write(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", filename))
