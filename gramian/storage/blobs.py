"""Files named by the digest of their bytes."""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gramian.errors import StorageFull
from gramian.settings import Settings


@dataclass(frozen=True)
class StoredFile:
    """A file of a store, by the digest of its bytes."""

    sha256: str
    size: int


class BlobStore:
    """A folder of immutable files. A name given by a caller never becomes a path."""

    def __init__(self, root: Path, *, reserve_bytes: int = 0) -> None:
        self.root = root
        self.reserve_bytes = reserve_bytes

    def path(self, sha256: str) -> Path:
        return self.root / sha256[:2] / sha256

    def receive(self) -> "IncomingBlob":
        """A file that grows until it is published or discarded."""
        incoming = self.root / "incoming"
        incoming.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=incoming)
        return IncomingBlob(self, Path(name), descriptor)

    def check_room(self, size: int) -> None:
        """Refuse what would fill the disk down to the reserve."""
        self.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.root).free
        if free - size < self.reserve_bytes:
            raise StorageFull(
                f"{size:,} bytes do not fit: {free:,} are free, of which {self.reserve_bytes:,} are kept free",
                hint="delete uploads that are no longer needed, or give the data folder more room",
            )

    def store(self, chunks: Iterable[bytes], *, size: int) -> StoredFile:
        """A whole file of about `size` bytes, durable when this returns; nothing is left of it after an error."""
        self.check_room(size)
        incoming = self.receive()
        try:
            for chunk in chunks:
                incoming.write(chunk)
            incoming.flush()
            incoming.publish()
        finally:
            incoming.discard()
        return StoredFile(incoming.sha256, incoming.size)

    def digests(self, *, older_than: float) -> list[str]:
        """Of the files that were written so many seconds ago or earlier."""
        return [path.name for path in self.root.glob("??/*") if _age(path) >= older_than]

    def sweep(self, *, older_than: float = 0.0) -> None:
        """Remove what a crash cut off, if it has not grown for so many seconds; what is being received is locked."""
        for leftover in (self.root / "incoming").glob("*"):
            if _age(leftover) < older_than:
                continue
            try:
                with leftover.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    leftover.unlink(missing_ok=True)
            except (BlockingIOError, FileNotFoundError):  # another process receives it, or has just published it
                continue

    def delete(self, sha256: str) -> None:
        self.path(sha256).unlink(missing_ok=True)


class IncomingBlob:
    """Bytes on their way in: hashed as they arrive, invisible until published.

    Open and locked until then, so that another service that starts on the same folder leaves the file alone.
    """

    def __init__(self, store: BlobStore, path: Path, descriptor: int) -> None:
        self.store = store
        self.path = path
        self.size = 0
        self._hash = hashlib.sha256()
        self._file = os.fdopen(descriptor, "wb")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def flush(self) -> None:
        """Make the bytes durable, still under their temporary name."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def publish(self) -> None:
        """Give the file its digest's name."""
        target = self.store.path(self.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.path.replace(target)
        self._file.close()
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    """Seconds since the file was written; 0 if it has just gone."""
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime
    return 0.0


def artifact_store(settings: Settings) -> BlobStore:
    """Where the files lie that analyses make."""
    return BlobStore(settings.data_dir / "artifacts", reserve_bytes=settings.disk_reserve_bytes)
