"""Matrices written as safetensors, row block by row block: the format's library wants the whole of them in memory."""

import json
from collections.abc import Mapping, Sequence

HEADER_ALIGNMENT = 8


def safetensors_header(shapes: Mapping[str, Sequence[int]], *, metadata: Mapping[str, str]) -> bytes:
    """The head of a file whose float32 tensors follow in this order, in row-major little-endian bytes."""
    entries: dict[str, object] = {"__metadata__": dict(metadata)}
    start = 0
    for name, shape in shapes.items():
        size = 4
        for extent in shape:
            size *= extent
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, start + size]}
        start += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % HEADER_ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
