"""What the head of a weight file says: its tensors and where their bytes lie."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gramian.errors import InvalidWeights, NotAMatrix, UnsupportedDtype
from gramian.weights.tensors import READABLE_DTYPES, STORED_AS, StoredMatrix, TensorInfo

MAX_RANK = 32
MAX_NAME_LENGTH = 4096


@dataclass(frozen=True)
class Span:
    """The bytes of one tensor inside its file."""

    offset: int
    nbytes: int
    fortran: bool = False
    big_endian: bool = False


@dataclass(frozen=True)
class FileHeader:
    """The format of a file and its tensors, in the file's own order."""

    format: str
    tensors: tuple[TensorInfo, ...]
    spans: Mapping[str, Span] = field(repr=False)

    def matrix(self, tensor: TensorInfo, path: Path) -> StoredMatrix:
        """The tensor as a matrix in the file at `path`."""
        check_matrix(tensor)
        span = self.spans[tensor.name]
        rows, dim = tensor.shape
        return StoredMatrix(
            tensor.name, tensor.dtype, rows, dim, path, span.offset, fortran=span.fortran, big_endian=span.big_endian
        )


def check_matrix(tensor: TensorInfo) -> None:
    """Raise unless the tensor is a non-empty matrix of plain floating-point numbers."""
    if tensor.dtype not in STORED_AS:
        raise UnsupportedDtype(tensor.name, tensor.dtype, supported=READABLE_DTYPES)
    if len(tensor.shape) != 2 or tensor.size == 0:
        raise NotAMatrix(tensor.name, tensor.shape)


def check_names(names: Iterable[str]) -> None:
    """Names are data and may hold anything a database and a JSON document can carry."""
    for name in names:
        if len(name) > MAX_NAME_LENGTH:
            raise InvalidWeights(
                f"a tensor name has {len(name):,} characters; at most {MAX_NAME_LENGTH:,} are accepted"
            )
        if "\0" in name:
            raise InvalidWeights(f"the tensor name {name[:80]!r} holds a NUL character")
