"""The weight formats that are read: one module each, and the one place that lists them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from gramian.errors import InvalidWeights, UnsupportedFormat
from gramian.weights.formats import foreign, npy, safetensors
from gramian.weights.formats.header import FileHeader, Span, check_matrix

SUPPORTED = ("safetensors", ".npy")


@dataclass(frozen=True)
class Format:
    """A readable format: how its files begin, how they are called, how their header is read."""

    name: str
    suffix: str
    recognises: Callable[[bytes], bool]
    read_header: Callable[[BinaryIO, int], FileHeader]


FORMATS = (
    Format(safetensors.NAME, ".safetensors", safetensors.recognises, safetensors.read_header),
    Format(npy.NAME, ".npy", npy.recognises, npy.read_header),
)


def inspect_file(path: Path, *, filename: str | None = None) -> FileHeader:
    """Format and tensors of a file, told by its content first and by its name second.

    Raises
    ------
    InvalidWeights
        The bytes contradict the format that they, or the name, claim.
    UnsupportedFormat
        The format is known and not read here.
    UnsupportedDtype
        A .npy array of something else than floating-point numbers.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(foreign.HEAD_BYTES)
        return choose_format(head, filename or path.name).read_header(file, size)


def choose_format(head: bytes, filename: str) -> Format:
    """The format of a file that begins with `head`; raises if it is not one that is read."""
    if not head:
        raise InvalidWeights("the file is empty", hint="send the bytes of the file as the request's body")
    for known in FORMATS:
        if known.recognises(head):
            return known
    foreign.refuse_text(head)
    if other := foreign.by_content(head):
        raise UnsupportedFormat(other.name, supported=SUPPORTED, hint=other.hint)
    suffix = PurePath(filename).suffix.lower()
    for known in FORMATS:
        if suffix == known.suffix:
            return known  # its reader says what is wrong
    if other := foreign.by_name(filename):
        raise UnsupportedFormat(f"{other.name}, by the file's name", supported=SUPPORTED, hint=other.hint)
    raise InvalidWeights(
        f"the file is in no format known here; it begins with the bytes {head[:8].hex(' ')}",
        hint=f"supported are {' and '.join(SUPPORTED)}",
    )


__all__ = ["FORMATS", "SUPPORTED", "FileHeader", "Format", "Span", "check_matrix", "choose_format", "inspect_file"]
