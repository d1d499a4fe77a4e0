"""Which files of a folder or a repository hold the weights: pure decisions over a listing."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from gramian.errors import InvalidWeights, UnsupportedFormat, WeightFileNotFound
from gramian.weights.formats import SUPPORTED
from gramian.weights.formats.foreign import by_name
from gramian.weights.strict_json import parse, parse_object, shorten

MAX_JSON_BYTES = 32 * 2**20  # an index of 200,000 tensors has about 20 MiB

# The index goes first: a lone file beside it is often a leftover of another precision.
_PREFERRED = (
    "model.safetensors.index.json",
    "model.safetensors",
    "consolidated.safetensors.index.json",
    "consolidated.safetensors",
)
_INDEX = ".safetensors.index.json"
_NAMED_IN_ERRORS = 5

ReadJson = Callable[[str], bytes]


@dataclass(frozen=True)
class Layout:
    """Where the weights lie. All names are relative to the source's top, with forward slashes."""

    folder: str  # "" or the sub-folder that modules.json names
    file: str | None  # the only weight file, or None with an index
    index: Mapping[str, str] = field(default_factory=dict)  # tensor name → file


def find_weights(listing: Collection[str], read_json: ReadJson) -> Layout:
    """The layout of a source that lists the file names `listing`.

    Raises
    ------
    WeightFileNotFound
        There is no weight file, or the index names files that are missing.
    UnsupportedFormat
        There are weights, in formats that are not read.
    InvalidWeights
        The index contradicts itself.
    """
    files = set(listing)
    for folder in _folders(files, read_json):
        found = _in_folder(folder, files)
        if found is None:
            continue
        if found.endswith(_INDEX):
            return Layout(folder, None, read_index(found, read_json(found), files))
        return Layout(folder, found)
    raise _nothing_readable(files)


def read_index(name: str, raw: bytes, files: Collection[str]) -> Mapping[str, str]:
    """Tensor name → file from an index, every file plain, relative and present."""
    what = f"the index {name}"
    weight_map = parse_object(raw, what=what).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InvalidWeights(f"{what} has no weight_map of tensor names to files")
    for tensor, file in weight_map.items():
        if not isinstance(file, str) or not is_plain(file):
            raise InvalidWeights(
                f"{what} places tensor {shorten(tensor)} in {shorten(str(file))}, not a plain relative name"
            )
    folder = PurePosixPath(name).parent
    places = {file: str(folder / file) for file in set(weight_map.values())}
    missing = sorted(set(places.values()) - set(files))
    if missing:
        named = ", ".join(missing[:_NAMED_IN_ERRORS]) + (", …" if len(missing) > _NAMED_IN_ERRORS else "")
        raise WeightFileNotFound(
            f"{what} names {len(places)} files, {len(missing)} of them are missing: {named}",
            hint="complete the download, or remove an index that belongs to other files",
        )
    return {tensor: places[file] for tensor, file in weight_map.items()}


def is_plain(name: str) -> bool:
    """Whether the name is relative, stays below its folder, and holds no character that a path gives a meaning."""
    parts = name.split("/")
    return bool(name) and not any(part in {"", ".", ".."} for part in parts) and not set(name) & {"\\", "\0", ":"}


def _folders(files: set[str], read_json: ReadJson) -> list[str]:
    folders = [""]
    if "modules.json" in files:
        modules = parse(read_json("modules.json"), what="modules.json")
        first = next((m for m in modules if isinstance(m, dict)), {}) if isinstance(modules, list) else {}
        path = first.get("path")
        if isinstance(path, str) and path:
            if not is_plain(path.rstrip("/")):
                raise InvalidWeights(
                    f"modules.json names the folder {shorten(path)}, which is not a plain relative name"
                )
            folders.append(path.rstrip("/"))
    return folders


def _in_folder(folder: str, files: set[str]) -> str | None:
    here = {PurePosixPath(file).name: file for file in files if _parent(file) == folder}
    for name in _PREFERRED:
        if name in here:
            return here[name]
    for ending in (_INDEX, ".safetensors", ".npy"):
        found = sorted(name for name in here if name.lower().endswith(ending))
        if len(found) == 1:
            return here[found[0]]
        if found:
            raise WeightFileNotFound(
                f"there are {len(found)} files {', '.join(found[:_NAMED_IN_ERRORS])} and no model.safetensors or index "
                "that says which to read",
                hint="name the one file as the source, or add the index",
            )
    return None


def _nothing_readable(files: set[str]) -> Exception:
    for file in sorted(files, key=lambda name: (name.count("/"), name)):
        other = by_name(file)
        if other is not None:
            return UnsupportedFormat(f"{shorten(file)} ({other.name})", supported=SUPPORTED, hint=other.hint)
    return WeightFileNotFound(
        "there is no safetensors file and no .npy array",
        hint="name a model whose repository or folder holds model.safetensors",
    )


def _parent(file: str) -> str:
    folder = str(PurePosixPath(file).parent)
    return "" if folder == "." else folder
