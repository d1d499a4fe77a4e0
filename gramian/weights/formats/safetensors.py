"""safetensors: eight bytes of header length, a JSON header, then the tensors' bytes without a gap."""

import json
from types import MappingProxyType
from typing import Any, BinaryIO

from gramian.errors import InvalidWeights
from gramian.weights.formats.header import MAX_RANK, FileHeader, Span, check_names
from gramian.weights.strict_json import parse_object, shorten
from gramian.weights.tensors import TensorInfo

NAME = "safetensors"
LENGTH_BYTES = 8  # unsigned, little-endian
MAX_HEADER_BYTES = 16 * 2**20
MAX_TENSORS = 65_536

# The reference implementation's own cap: a longer "length" is some other file's first bytes.
_PLAUSIBLE_HEADER_BYTES = 100_000_000

BITS = MappingProxyType(
    {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
    | dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8)
    | dict.fromkeys(("I16", "U16", "F16", "BF16"), 16)
    | dict.fromkeys(("I32", "U32", "F32"), 32)
    | dict.fromkeys(("C64", "F64", "I64", "U64"), 64)
)


def recognises(head: bytes) -> bool:
    """A plausible length, then the brace that opens the header."""
    return head[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{" and _length(head) <= _PLAUSIBLE_HEADER_BYTES


def read_header(file: BinaryIO, size: int) -> FileHeader:
    """The header of an open file of `size` bytes."""
    file.seek(0)
    length = header_length(file.read(LENGTH_BYTES), size)
    return parse_header(file.read(length), size)


def header_length(first: bytes, size: int) -> int:
    """Length of the JSON header, from the first eight bytes of a file of `size` bytes."""
    if size < LENGTH_BYTES or len(first) < LENGTH_BYTES:
        raise InvalidWeights(
            f"the file is {size:,} bytes long; a safetensors file begins with {LENGTH_BYTES} bytes of header length",
            hint="upload the whole file: this looks truncated",
        )
    length = _length(first)
    if length > MAX_HEADER_BYTES:
        raise InvalidWeights(
            f"its first eight bytes claim a header of {length:,} bytes, more than the {MAX_HEADER_BYTES:,} accepted, "
            f"and the file is {size:,} bytes long",
            hint="check that the file is a safetensors file and was not altered",
        )
    if LENGTH_BYTES + length > size:
        raise InvalidWeights(
            f"the file is {size:,} bytes long, its header alone claims {LENGTH_BYTES + length:,}: it is truncated",
            hint="upload or copy the whole file again",
        )
    return length


def parse_header(raw: bytes, size: int) -> FileHeader:
    """Tensors and spans from the JSON header of a file of `size` bytes, every claim checked against the others."""
    if not raw.startswith(b"{"):
        raise InvalidWeights(f"the safetensors header must begin with '{{', it begins with {raw[:8]!r}")
    header = parse_object(raw, what="the safetensors header")
    _check_metadata(header.pop("__metadata__", {}))
    if len(header) > MAX_TENSORS:
        raise InvalidWeights(f"the header lists {len(header):,} tensors; at most {MAX_TENSORS:,} are accepted")
    check_names(header)
    data_start = LENGTH_BYTES + len(raw)
    entries = [
        (TensorInfo(name, *_dtype_and_shape(name, entry)), *_offsets(name, entry)) for name, entry in header.items()
    ]
    _check_layout(entries, data_start, size)
    return FileHeader(
        NAME,
        tuple(tensor for tensor, _, _ in entries),
        {tensor.name: Span(data_start + begin, end - begin) for tensor, begin, end in entries},
    )


def _length(first: bytes) -> int:
    return int.from_bytes(first[:LENGTH_BYTES], "little")


def _check_metadata(metadata: object) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise InvalidWeights("__metadata__ in the safetensors header is not an object of strings")


def _dtype_and_shape(name: str, entry: object) -> tuple[str, tuple[int, ...]]:
    if not isinstance(entry, dict) or not entry.keys() >= {"dtype", "shape", "data_offsets"}:
        found = sorted(entry) if isinstance(entry, dict) else entry
        raise InvalidWeights(
            f"tensor {shorten(name)} must be described by dtype, shape and data_offsets, not by {_excerpt(found)}"
        )
    dtype, shape = entry["dtype"], entry["shape"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise InvalidWeights(f"tensor {shorten(name)} has the unknown dtype {_excerpt(dtype)}")
    if not isinstance(shape, list) or len(shape) > MAX_RANK or not all(_is_count(side) for side in shape):
        raise InvalidWeights(
            f"tensor {shorten(name)} has the shape {_excerpt(shape)}; a shape is a list of at most {MAX_RANK} "
            "non-negative integers"
        )
    return dtype, tuple(shape)


def _offsets(name: str, entry: dict[str, Any]) -> tuple[int, int]:
    offsets = entry["data_offsets"]
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(offset) for offset in offsets):
        raise InvalidWeights(
            f"tensor {shorten(name)} has the data_offsets {_excerpt(offsets)}; two non-negative integers are needed"
        )
    return offsets[0], offsets[1]


def _check_layout(entries: list[tuple[TensorInfo, int, int]], data_start: int, size: int) -> None:
    reached = 0
    for tensor, begin, end in sorted(entries, key=lambda entry: entry[1:]):
        if begin != reached:
            what = (
                "overlap those of another tensor" if begin < reached else f"leave a hole of {begin - reached:,} bytes"
            )
            raise InvalidWeights(
                f"the bytes of tensor {shorten(tensor.name)} {what}: they begin at {begin:,}, "
                f"the ones before end at {reached:,}"
            )
        bits = tensor.size * BITS[tensor.dtype]
        if bits % 8 or end - begin != bits // 8:
            raise InvalidWeights(
                f"tensor {shorten(tensor.name)} of shape {_excerpt(list(tensor.shape))} and dtype {tensor.dtype} "
                f"needs {_in_bytes(bits)}, its data_offsets span {end - begin:,}"
            )
        reached = end
    expected = data_start + reached
    if expected != size:
        state = "truncated" if size < expected else "followed by bytes that belong to no tensor"
        raise InvalidWeights(
            f"the file is {size:,} bytes long, its header claims {expected:,}: it is {state}",
            hint="upload or copy the whole file again" if size < expected else None,
        )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _in_bytes(bits: int) -> str:
    return f"{bits:,} bits" if bits % 8 else f"{bits // 8:,} bytes"


def _excerpt(value: object) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 80 else text[:77] + "..."
