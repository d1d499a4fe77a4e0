"""Where weights come from: one protocol, and the sources that are files on this machine."""

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from gramian.errors import InvalidWeights, PathNotAllowed
from gramian.weights.checkpoint import Checkpoint
from gramian.weights.formats import FileHeader, inspect_file
from gramian.weights.layout import MAX_JSON_BYTES, Layout, find_weights
from gramian.weights.paths import PathIdentity, check_unchanged, contained, list_files
from gramian.weights.strict_json import parse_object
from gramian.weights.tensors import StoredMatrix, TensorInfo

Progress = Callable[[int, int], None]  # bytes done, bytes in all; may raise to stop the reading


class WeightSource(Protocol):
    """Weights somewhere. Used as a context manager: what it stored locally is gone afterwards."""

    @property
    def bytes_fetched(self) -> int:
        """Body bytes received over a network, headers, index and configuration included."""

    def checkpoint(self) -> Checkpoint:
        """The tensors and their places."""

    def fetch(self, tensor: TensorInfo, *, progress: Progress | None = None) -> StoredMatrix:
        """The matrix in a local file, valid until the source is closed."""

    def beside(self, name: str, *, limit: int) -> bytes | None:
        """A small file in the folder of the weights, None if there is none; InvalidWeights if it is larger."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def open_path(root: Path, identity: PathIdentity) -> "FileSource | FolderSource":
    """The source behind a path that was accepted earlier; SourceChanged if its bytes may have changed since."""
    check_unchanged(root, identity)
    real = contained(root.resolve(), root / identity.path, shown=identity.path)
    return FolderSource(real, root) if real.is_dir() else FileSource(real)


class _Local:
    """What both local sources do alike: nothing is fetched, so nothing is left to remove."""

    bytes_fetched = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class FileSource(_Local):
    """One weight file: an upload, or a file that a path names.

    `filename` is what the file is called to its owner; an upload lies under its digest.
    """

    def __init__(self, path: Path, *, filename: str | None = None) -> None:
        self.path = path
        self.filename = filename or path.name
        self._checkpoint: Checkpoint | None = None

    def checkpoint(self) -> Checkpoint:
        if self._checkpoint is None:
            self._checkpoint = Checkpoint(Layout("", self.filename), lambda _: self._header())
        return self._checkpoint

    def fetch(self, tensor: TensorInfo, *, progress: Progress | None = None) -> StoredMatrix:
        matrix = self.checkpoint().header(self.filename).matrix(tensor, self.path)
        if progress is not None:
            progress(matrix.nbytes, matrix.nbytes)
        return matrix

    def beside(self, name: str, *, limit: int) -> bytes | None:  # noqa: ARG002
        return None  # one file is all that was named

    def _header(self) -> FileHeader:
        return inspect_file(self.path, filename=self.filename)


class FolderSource(_Local):
    """A model's folder: index, shards, config.json. Links are followed as long as they stay under `root`."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.folder = folder
        self.root = (root or folder).resolve()
        self._checkpoint: Checkpoint | None = None

    def checkpoint(self) -> Checkpoint:
        if self._checkpoint is None:
            layout = find_weights(set(list_files(self.folder, self.root)), self._read_json)
            checkpoint = Checkpoint(layout, self._header, self._config(layout))
            checkpoint.describe(checkpoint.names)  # here all headers cost little: hold the whole index against them
            self._checkpoint = checkpoint
        return self._checkpoint

    def fetch(self, tensor: TensorInfo, *, progress: Progress | None = None) -> StoredMatrix:
        checkpoint = self.checkpoint()
        file = checkpoint.file_of(tensor.name)
        matrix = checkpoint.header(file).matrix(tensor, self._path(file))
        if progress is not None:
            progress(matrix.nbytes, matrix.nbytes)
        return matrix

    def _header(self, file: str) -> FileHeader:
        with in_file(file):
            return inspect_file(self._path(file), filename=file)

    def _config(self, layout: Layout) -> dict[str, object] | None:
        name = f"{layout.folder}/config.json" if layout.folder else "config.json"
        if not (self.folder / name).is_file():
            return None
        return parse_object(self._read_json(name), what=name, constants=True)

    def beside(self, name: str, *, limit: int) -> bytes | None:
        folder = self.checkpoint().layout.folder
        for place in dict.fromkeys((f"{folder}/{name}" if folder else name, name)):
            if (self.folder / place).is_file():
                return self._read(place, limit)
        return None

    def _read_json(self, name: str) -> bytes:
        return self._read(name, MAX_JSON_BYTES)

    def _read(self, name: str, limit: int) -> bytes:
        with self._path(name).open("rb") as file:
            body = file.read(limit + 1)
        if len(body) > limit:
            raise InvalidWeights(f"{name} is larger than {limit:,} bytes")
        return body

    def _path(self, name: str) -> Path:
        path = contained(self.root, self.folder / name, shown=name)
        if not stat.S_ISREG(path.stat().st_mode):
            raise PathNotAllowed(f"{name!r} is not a regular file")
        return path


@contextmanager
def in_file(name: str) -> Iterator[None]:
    """Say which of several files a complaint is about."""
    try:
        yield
    except InvalidWeights as error:
        raise InvalidWeights(f"{name}: {error.message}", hint=error.hint) from None
