"""Models on the Hub: a name becomes a commit at submission, a commit becomes matrices in the worker."""

import errno
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # re-exported lazily

from gramian.errors import (
    HubProtocolError,
    InvalidWeights,
    RevisionNotFound,
    StorageFull,
    UnsupportedFormat,
)
from gramian.weights.checkpoint import Checkpoint
from gramian.weights.formats import SUPPORTED, FileHeader, check_matrix, choose_format, safetensors
from gramian.weights.hub_errors import CLIENT_ERRORS, explain
from gramian.weights.hub_files import HubFiles, Token
from gramian.weights.layout import MAX_JSON_BYTES, Layout, find_weights
from gramian.weights.sources import Progress, in_file
from gramian.weights.strict_json import parse_object
from gramian.weights.tensors import StoredMatrix, TensorInfo

DEFAULT_REVISION = "main"
FREE_BYTES_TO_LEAVE = 64 * 2**20  # the spool folder's disk also serves the database

_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_CONFIG_BYTES = 8 * 2**20
_MAX_REVISION_LENGTH = 255


@dataclass(frozen=True)
class HubIdentity:
    """A model at a commit. `revision` is what was asked for."""

    model_id: str
    revision: str
    commit: str


def resolve_hub(
    model_id: str, revision: str | None, *, endpoint: str, token: Token = False, timeout: float = 10.0
) -> HubIdentity:
    """The commit that a revision of a model stands for now, in one request and without retries.

    Raises
    ------
    InvalidModelId, ModelNotFound, RevisionNotFound, ModelAccessDenied
        The Hub has no such model or revision, or does not show it.
    HubUnavailable, HubProtocolError
        The Hub did not answer, or not with a commit.
    """
    revision = DEFAULT_REVISION if revision is None else revision
    try:
        validate_repo_id(model_id)
    except HFValidationError as error:
        raise explain(error, model_id=str(model_id), revision=revision) from None
    _check_revision(model_id, revision)
    try:
        info = HfApi(endpoint=endpoint.rstrip("/"), token=token, library_name="gramian").model_info(
            model_id, revision=revision, timeout=timeout
        )
    except CLIENT_ERRORS as error:
        raise explain(error, model_id=model_id, revision=revision) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _no_commit() from None
    if not isinstance(info.sha, str) or not _COMMIT.fullmatch(info.sha):
        raise _no_commit()
    return HubIdentity(_canonical(info.id, model_id), revision, info.sha)


class HubSource:
    """The weights of one commit: headers first, then exactly the bytes of the tensors asked for."""

    def __init__(
        self,
        identity: HubIdentity,
        *,
        endpoint: str,
        spool_dir: Path,
        token: Token = False,
        timeout: float = 30.0,
        attempts: int = 4,
    ) -> None:
        if not _COMMIT.fullmatch(identity.commit):
            raise RevisionNotFound(f"{identity.commit[:80]!r} is not a commit of 40 hexadecimal digits")
        self.identity = identity
        self.spool_dir = spool_dir
        self._files = HubFiles(
            identity.model_id, identity.commit, endpoint=endpoint, token=token, timeout=timeout, attempts=attempts
        )
        self._checkpoint: Checkpoint | None = None
        self._names: set[str] = set()  # of all files, once the checkpoint was read
        self._spooled: list[Path] = []

    @property
    def bytes_fetched(self) -> int:
        return self._files.bytes_fetched

    def checkpoint(self) -> Checkpoint:
        if self._checkpoint is None:
            listing = self._listing()
            layout = find_weights(listing, lambda name: self._files.whole(name, limit=MAX_JSON_BYTES))
            if layout.file is not None and not layout.file.lower().endswith(".safetensors"):
                raise UnsupportedFormat(f"{layout.file!r} on the Hub", supported=SUPPORTED[:1])
            self._checkpoint = Checkpoint(layout, self._header, self._config(layout, listing))
            self._names = listing
        return self._checkpoint

    def fetch(self, tensor: TensorInfo, *, progress: Progress | None = None) -> StoredMatrix:
        checkpoint = self.checkpoint()
        check_matrix(tensor)
        file = checkpoint.file_of(tensor.name)
        span = checkpoint.header(file).spans[tensor.name]
        path = self._spool(file, span.offset, span.nbytes, progress)
        rows, dim = tensor.shape
        return StoredMatrix(tensor.name, tensor.dtype, rows, dim, path, 0)

    def beside(self, name: str, *, limit: int) -> bytes | None:
        folder = self.checkpoint().layout.folder
        for place in dict.fromkeys((f"{folder}/{name}" if folder else name, name)):
            if place in self._names:
                return self._files.whole(place, limit=limit)
        return None

    def close(self) -> None:
        """Remove the spooled tensors."""
        while self._spooled:
            self._spooled.pop().unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listing(self) -> set[str]:
        try:
            described = parse_object(
                self._files.listing(limit=MAX_JSON_BYTES), what="the Hub's description of the model", constants=True
            )
        except InvalidWeights as error:
            raise HubProtocolError(error.message, hint="check the configured Hub endpoint") from None
        siblings = described.get("siblings")
        if described.get("sha", self.identity.commit) != self.identity.commit or not isinstance(siblings, list):
            raise HubProtocolError(f"the Hub does not list the files of commit {self.identity.commit}")
        names = (sibling.get("rfilename") for sibling in siblings if isinstance(sibling, dict))
        return {name for name in names if isinstance(name, str)}

    def _config(self, layout: Layout, listing: set[str]) -> dict[str, object] | None:
        name = f"{layout.folder}/config.json" if layout.folder else "config.json"
        if name not in listing:
            return None
        return parse_object(self._files.whole(name, limit=_MAX_CONFIG_BYTES), what=name, constants=True)

    def _header(self, file: str) -> FileHeader:
        first = self._read(file, 0, safetensors.LENGTH_BYTES)
        size = self._files.size(file)
        with in_file(file):
            try:
                length = safetensors.header_length(first, size)
            except InvalidWeights:
                head = self._read(file, 0, min(size, 512))
                choose_format(head, file)  # a pointer or a page is better named than measured
                raise
        raw = self._read(file, safetensors.LENGTH_BYTES, safetensors.LENGTH_BYTES + length)
        with in_file(file):
            return safetensors.parse_header(raw, size)

    def _read(self, file: str, start: int, stop: int) -> bytes:
        if start == stop:
            return b""
        body = bytearray()
        self._files.range(file, start, stop, body.extend)
        return bytes(body)

    def _spool(self, file: str, offset: int, nbytes: int, progress: Progress | None) -> Path:
        free = shutil.disk_usage(self.spool_dir).free
        if free < nbytes + FREE_BYTES_TO_LEAVE:
            raise StorageFull(
                f"the tensor has {nbytes:,} bytes, {free:,} are free where it would be stored",
                hint="free space in the data folder, then submit the analysis again",
            )
        handle, name = tempfile.mkstemp(prefix="tensor-", suffix=".spool", dir=self.spool_dir)
        path = Path(name)
        self._spooled.append(path)
        done = 0
        with os.fdopen(handle, "wb") as out:

            def keep(chunk: bytes) -> None:
                nonlocal done
                try:
                    out.write(chunk)
                except OSError as error:
                    raise _full_or(error) from None
                done += len(chunk)
                if progress is not None:
                    progress(done, nbytes)

            self._files.range(file, offset, offset + nbytes, keep)
        return path


def _check_revision(model_id: str, revision: str) -> None:
    odd = not revision or revision in {".", ".."} or len(revision) > _MAX_REVISION_LENGTH or not revision.isprintable()
    if odd or not _encodes(revision):
        raise RevisionNotFound(
            f"{revision[:80]!r} cannot be a revision of {model_id!r}",
            hint="name a branch, a tag or a commit of the model",
        )


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _canonical(given: object, asked: str) -> str:
    """The Hub's own spelling of the id (renamed models answer under their new name), if it is one."""
    try:
        validate_repo_id(given)  # type: ignore[arg-type]
    except HFValidationError:
        return asked
    return given if isinstance(given, str) else asked


def _no_commit() -> HubProtocolError:
    return HubProtocolError(
        "the Hub's description of the model names no commit", hint="check the configured Hub endpoint"
    )


def _full_or(error: OSError) -> Exception:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFull("the disk filled up while the tensor was stored", hint="free space in the data folder")
    return error
