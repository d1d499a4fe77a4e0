"""The tensors of a checkpoint that may be spread over many files, with only the needed headers read."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gramian.errors import InvalidWeights
from gramian.weights.formats.header import FileHeader
from gramian.weights.layout import Layout
from gramian.weights.tensors import TensorInfo

ReadHeader = Callable[[str], FileHeader]

_MAX_HEADERS = 512  # for a search through all files; no published checkpoint has as many


@dataclass
class Checkpoint:
    """Tensor names, the files they live in, and `config.json` where there is one."""

    layout: Layout
    read_header: ReadHeader
    config: Mapping[str, Any] | None = None
    lost: dict[str, str] = field(default_factory=dict)  # names that the index places in a file which lacks them
    _headers: dict[str, FileHeader] = field(default_factory=dict)

    @property
    def names(self) -> Collection[str]:
        """Every tensor that the checkpoint lists, from the index or from its only file."""
        if self.layout.file is not None:
            return [tensor.name for tensor in self.header(self.layout.file).tensors]
        return self.layout.index.keys()

    def describe(self, names: Iterable[str]) -> tuple[TensorInfo, ...]:
        """Dtype and shape of the named tensors and of all others in the same files; the index wins over the headers.

        Names that the index places in a file without them are left out here and recorded in `lost`.
        """
        files = dict.fromkeys(self.file_of(name) for name in names)
        if len(files) > _MAX_HEADERS:
            raise InvalidWeights(f"{len(files)} weight files would have to be opened to find the vocabulary")
        return tuple(tensor for file in files for tensor in self._placed_in(file))

    def file_of(self, name: str) -> str:
        """The file that holds the tensor."""
        return self.layout.file if self.layout.file is not None else self.layout.index[name]

    def header(self, file: str) -> FileHeader:
        """The header of one weight file, read once."""
        if file not in self._headers:
            self._headers[file] = self.read_header(file)
        return self._headers[file]

    def _placed_in(self, file: str) -> list[TensorInfo]:
        tensors = self.header(file).tensors
        if self.layout.file is not None:
            return list(tensors)
        expected = self._by_file[file]
        placed = [tensor for tensor in tensors if tensor.name in expected]
        self.lost.update(dict.fromkeys(sorted(expected - {tensor.name for tensor in placed}), file))
        return placed

    @cached_property
    def _by_file(self) -> Mapping[str, set[str]]:
        grouped: dict[str, set[str]] = {}
        for name, file in self.layout.index.items():
            grouped.setdefault(file, set()).add(name)
        return grouped
