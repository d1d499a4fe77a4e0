"""One NumPy array in a .npy file, read without pickle."""

from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as numpy_format

from gramian.errors import InvalidWeights, UnsupportedDtype
from gramian.weights.formats.header import MAX_RANK, FileHeader, Span
from gramian.weights.tensors import READABLE_DTYPES, TensorInfo

NAME = "npy"
MAGIC = numpy_format.MAGIC_PREFIX
ARRAY = "array"  # the name under which the only array of the file goes

MAX_HEADER_BYTES = 4096  # a plain float array's header has 64 to 128

_DTYPES = MappingProxyType({("f", 8): "F64", ("f", 4): "F32", ("f", 2): "F16"})


def recognises(head: bytes) -> bool:
    return head.startswith(MAGIC)


def read_header(file: BinaryIO, size: int) -> FileHeader:
    """The header of an open file of `size` bytes."""
    file.seek(0)
    shape, fortran, dtype = _numpy_header(file)
    if (dtype.kind, dtype.itemsize) not in _DTYPES or dtype.subdtype is not None:
        raise UnsupportedDtype(
            ARRAY, f"NumPy {dtype.name if dtype.names is None else 'records'}", supported=READABLE_DTYPES
        )
    if len(shape) > MAX_RANK or any(isinstance(side, bool) or side < 0 for side in shape):
        raise InvalidWeights(f"the .npy header has the shape {str(shape)[:80]}, which no array has")
    tensor = TensorInfo(ARRAY, _DTYPES[dtype.kind, dtype.itemsize], tuple(shape))
    offset, nbytes = file.tell(), tensor.size * dtype.itemsize
    if offset + nbytes != size:
        state = "truncated" if size < offset + nbytes else "followed by bytes that belong to no array"
        raise InvalidWeights(
            f"the file is {size:,} bytes long, its .npy header claims {offset + nbytes:,}: it is {state}",
            hint="save the array again with numpy.save and send the whole file",
        )
    return FileHeader(NAME, (tensor,), {ARRAY: Span(offset, nbytes, fortran=fortran, big_endian=dtype.str[0] == ">")})


def _numpy_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        major, minor = numpy_format.read_magic(file)
        # 3.0 differs from 2.0 in the encoding of record field names only, and records are refused.
        read = numpy_format.read_array_header_1_0 if major == 1 else numpy_format.read_array_header_2_0
        header = read(file, max_header_size=MAX_HEADER_BYTES)
    except Exception as error:  # noqa: BLE001 - NumPy evaluates a literal here: any error and any warning can come of it
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise InvalidWeights(f"the .npy header cannot be read: {reason}") from None
    if major not in {1, 2, 3} or minor != 0:
        raise InvalidWeights(f"the .npy version {major}.{minor} is unknown; 1.0, 2.0 and 3.0 are read")
    return header
