"""Paths that a request may name: under the operator's root, and the same bytes later as at submission."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gramian.errors import InvalidWeights, PathNotAllowed, PathNotFound, SourceChanged

_RELEVANT = (".safetensors", ".npy", ".json")
_MAX_FILES = 10_000  # a folder of shards has hundreds


@dataclass(frozen=True)
class PathIdentity:
    """A file or folder: its real path below the root, and a digest that changes when the content is written to."""

    path: str
    fingerprint: str


def resolve_path(root: Path, relative: str) -> PathIdentity:
    """The identity of `relative` under `root`.

    Raises
    ------
    PathNotAllowed
        The path is absolute, climbs with `..`, leads outside through a link, or is no regular file or folder.
    PathNotFound
        There is nothing, or nothing that may be read.
    """
    if not is_text(relative) or Path(relative).is_absolute() or ".." in Path(relative).parts:
        raise PathNotAllowed(
            f"the path {relative[:200]!r} is not a plain relative path",
            hint="give a path relative to the configured root, without '..'",
        )
    base = root.resolve()
    real = contained(base, base / relative, shown=relative)
    if not is_text(str(real)):
        raise PathNotAllowed(f"{relative[:200]!r} leads to a file whose name is not UTF-8")
    return PathIdentity(real.relative_to(base).as_posix(), _fingerprint(base, real, shown=relative))


def check_unchanged(root: Path, identity: PathIdentity) -> None:
    """Raise SourceChanged unless the path still has the fingerprint of `identity`."""
    if resolve_path(root, identity.path) != identity:
        raise SourceChanged(
            f"{identity.path!r} changed after the analysis was accepted", hint="submit the analysis again"
        )


def contained(root: Path, path: Path, *, shown: str) -> Path:
    """The real path behind `path`, which must exist and lie under the resolved `root`."""
    try:
        real = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        # A dangling link must not tell whether its target exists outside.
        if not path.resolve().is_relative_to(root):
            raise _outside(shown) from None
        raise PathNotFound(f"there is no {shown[:200]!r} under the configured root") from None
    except (OSError, RuntimeError) as error:  # no permission, a name too long, a loop of links
        reason = error.strerror if isinstance(error, OSError) else "a loop of links"
        raise PathNotFound(f"{shown[:200]!r} cannot be opened: {reason}") from None
    if not real.is_relative_to(root):
        raise _outside(shown)
    return real


def is_text(name: str) -> bool:
    """Whether the name is not empty and can be written as UTF-8 without NUL."""
    try:
        return bool(name) and b"\0" not in name.encode("utf-8")
    except UnicodeEncodeError:
        return False


def list_files(folder: Path, root: Path) -> Iterator[str]:
    """Names of the files in `folder` and in the folders right below it, relative and with forward slashes."""
    found = 0
    for top in _entries(folder):
        names = [top.name]
        if top.is_dir():
            inner = (folder / top.name).resolve()
            inside = _entries(inner) if inner.is_relative_to(root) else ()
            names = [f"{top.name}/{entry.name}" for entry in inside if not entry.is_dir()]
        for name in names:
            found += 1
            if found > _MAX_FILES:
                raise InvalidWeights(
                    f"the folder holds more than {_MAX_FILES:,} files", hint="name the model's own folder"
                )
            yield name


def _fingerprint(base: Path, real: Path, *, shown: str) -> str:
    mode = real.stat().st_mode
    if stat.S_ISREG(mode):
        files = [(real.name, real)]
    elif stat.S_ISDIR(mode):
        files = [(name, real / name) for name in sorted(list_files(real, base)) if name.lower().endswith(_RELEVANT)]
    else:
        raise PathNotAllowed(f"{shown[:200]!r} is neither a regular file nor a folder")
    digest = hashlib.sha256()
    for name, path in files:
        about = contained(base, path, shown=name).stat()
        facts = (name, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)
        digest.update(repr(facts).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise PathNotFound(f"{folder.name!r} cannot be listed: {error.strerror}") from None


def _outside(shown: str) -> PathNotAllowed:
    return PathNotAllowed(
        f"{shown[:200]!r} leads outside the configured root",
        hint="only files under the root may be read, also through links",
    )
