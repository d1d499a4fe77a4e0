"""Formats that are known and not read, told by their first bytes or, failing that, by the file's name."""

import re
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

from gramian.errors import InvalidWeights

HEAD_BYTES = 512  # enough for every magic number below, and for the first name in a zip archive

PYTORCH = "PyTorch checkpoint (pickle)"
LFS_POINTER = b"version https://git-lfs"

_MAGIC = (
    (b"GGUF", "GGUF"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"BZh", "bzip2 archive"),
)
_NAMES = MappingProxyType(
    {
        ".gguf": "GGUF",
        ".ggml": "GGML",
        ".bin": PYTORCH,
        ".pt": PYTORCH,
        ".pth": PYTORCH,
        ".ckpt": PYTORCH,
        ".pkl": "Python pickle",
        ".npz": "NumPy .npz archive",
        ".onnx": "ONNX",
        ".h5": "HDF5",
        ".hdf5": "HDF5",
        ".msgpack": "msgpack (Flax)",
        ".ot": "Rust tch archive",
        ".zip": "zip archive",
        ".gz": "gzip archive",
        ".tar": "tar archive",
    }
)
_HINTS = MappingProxyType(
    {
        PYTORCH: "pickled files can run code and are never opened here; convert it with "
        "safetensors.torch.save_file and send the .safetensors file",
        "NumPy .npz archive": "save the one matrix with numpy.save as .npy",
    }
)
_ONNX = re.compile(rb"\x08[\x01-\x1f][\x12\x1a\x22\x2a\x3a]", re.DOTALL)  # ir_version, then the next protobuf field
_PICKLE = re.compile(rb"\x80[\x02-\x05][cC}\]()\x8a\x95KJGX]", re.DOTALL)
_MSGPACK = re.compile(rb"(?:[\x81-\x8f]|\xde..|\xdf....)(?:[\xa1-\xbf]|\xd9.)[\x20-\x7e]", re.DOTALL)


@dataclass(frozen=True)
class Foreign:
    """A format by its name, and what to do with such a file."""

    name: str
    hint: str | None


def by_content(head: bytes) -> Foreign | None:
    """The format that the first bytes of a file belong to."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return _foreign(name)
    if head.startswith(b"PK\x03\x04"):
        return _foreign(_zip_kind(head))
    if head[257:262] == b"ustar":
        return _foreign("tar archive")
    for pattern, name in ((_PICKLE, PYTORCH), (_ONNX, "ONNX"), (_MSGPACK, "msgpack (Flax)")):
        if pattern.match(head):
            return _foreign(name)
    return None


def by_name(filename: str) -> Foreign | None:
    """The format that the ending of a file name stands for."""
    name = _NAMES.get(PurePath(filename).suffix.lower())
    return _foreign(name) if name else None


def refuse_text(head: bytes) -> None:
    """Raise with words for what is stored in place of weights surprisingly often: pointers, pages, messages."""
    if head.startswith(LFS_POINTER):
        raise InvalidWeights(
            "the file is a git-lfs pointer, a note of about 130 bytes that stands for the weights, not the weights",
            hint="run `git lfs pull` in the clone, or download the file itself, and send that",
        )
    if not head or not _is_text(head):
        return
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    kind = "an HTML or XML page" if start.startswith(b"<") else "JSON" if start[:1] in {b"{", b"["} else "plain text"
    raise InvalidWeights(
        f"the file holds {kind}, not weights; it begins with {head[:40].decode('utf-8', 'replace')!r}",
        hint="a download that was answered with an error message or a login page looks like this: fetch the file again",
    )


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # not merely a character cut at the end of the head
            return False
        text = head[: error.start].decode("utf-8")
    return bool(text) and all(character.isprintable() or character in "\t\r\n" for character in text)


def _zip_kind(head: bytes) -> str:
    length = int.from_bytes(head[26:28], "little")
    first = head[30 : 30 + length]
    if first.endswith(b".npy"):
        return "NumPy .npz archive"
    if first.endswith((b"data.pkl", b"/version", b"/byteorder")):
        return PYTORCH
    return "zip archive"


def _foreign(name: str) -> Foreign:
    return Foreign(name, _HINTS.get(name))
