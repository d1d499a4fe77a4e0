"""Weight files made by hand, byte by byte, so that what is expected of a reader does not come from the reader."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

Entry = dict[str, Any]


def raw_safetensors(header: bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> Entry:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors(header: Mapping[str, Any], data: bytes = b"") -> bytes:
    return raw_safetensors(json.dumps(header).encode(), data)


def one_tensor(name: str = "wte.weight", rows: int = 4, dim: int = 3) -> bytes:
    numbers = np.arange(rows * dim, dtype="<f4")
    return safetensors({name: entry("F32", [rows, dim], 0, numbers.nbytes)}, numbers.tobytes())


def bf16_bytes(values: np.ndarray) -> bytes:
    """Upper halves of float32: exact for numbers of few significant bits."""
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()


def with_header_of(size: int) -> bytes:
    """A valid file whose JSON header has exactly `size` bytes, filled by real metadata."""
    bare = {"__metadata__": {"note": ""}, "wte.weight": entry("F32", [2, 2], 0, 16)}
    bare["__metadata__"]["note"] = "x" * (size - len(json.dumps(bare)))
    header = json.dumps(bare).encode()
    assert len(header) == size
    return raw_safetensors(header, np.arange(4, dtype="<f4").tobytes())
