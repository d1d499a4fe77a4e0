"""A path never leads out of its root, and a changed file is noticed."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from gramian.errors import PathNotAllowed, PathNotFound, SourceChanged
from gramian.weights.paths import PathIdentity, check_unchanged, resolve_path
from gramian.weights.sources import FileSource, FolderSource, open_path
from tests.weights.making import one_tensor


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "models" / "tiny").mkdir(parents=True)
    (root / "models" / "tiny" / "model.safetensors").write_bytes(one_tensor())
    (root / "models" / "tiny" / "config.json").write_text("{}")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "model.safetensors").write_bytes(one_tensor())
    return root


def test_files_and_folders_under_the_root_are_identified(root: Path) -> None:
    folder = resolve_path(root, "models/tiny")
    file = resolve_path(root, "models/tiny/model.safetensors")
    assert (folder.path, file.path) == ("models/tiny", "models/tiny/model.safetensors")
    assert folder.fingerprint != file.fingerprint
    assert PathIdentity(**json.loads(json.dumps(asdict(folder)))) == folder
    assert resolve_path(root, "./models//tiny/") == folder
    assert isinstance(open_path(root, folder), FolderSource)
    assert isinstance(open_path(root, file), FileSource)


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "models/../../outside",
        "models/../models/tiny",
        "/etc/passwd",
        "..",
        "",
        "models\0/tiny",
        "\ud800",
        "/",
    ],
)
def test_paths_that_are_not_plain_and_relative_are_refused(root: Path, path: str) -> None:
    with pytest.raises(PathNotAllowed):
        resolve_path(root, path)


@pytest.mark.parametrize(
    "path", ["missing", "models/missing/x", "models/tiny/model.safetensors/x", "a" * 300, "a/" * 3000]
)
def test_missing_paths_are_not_found(root: Path, path: str) -> None:
    with pytest.raises(PathNotFound):
        resolve_path(root, path)


def test_links_out_of_the_root_are_refused_whether_their_target_exists_or_not(root: Path, tmp_path: Path) -> None:
    for name, target in {"file": "outside/model.safetensors", "folder": "outside", "dangling": "nowhere"}.items():
        (root / name).symlink_to(tmp_path / target)
        with pytest.raises(PathNotAllowed) as caught:
            resolve_path(root, name)
        assert str(tmp_path) not in caught.value.message
    with pytest.raises(PathNotAllowed):
        resolve_path(root, "folder/model.safetensors")


def test_a_file_in_a_folder_that_links_out_of_the_root_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "models" / "tiny" / "extra.safetensors").symlink_to(tmp_path / "outside" / "model.safetensors")
    with pytest.raises(PathNotAllowed):
        resolve_path(root, "models/tiny")


def test_links_inside_the_root_are_followed_to_the_real_path(root: Path) -> None:
    (root / "latest").symlink_to(root / "models" / "tiny")
    assert resolve_path(root, "latest") == resolve_path(root, "models/tiny")


def test_loops_pipes_and_dangling_links_are_errors_in_words(root: Path) -> None:
    (root / "loop").symlink_to(root / "loop")
    (root / "dangling").symlink_to(root / "nothing")
    os.mkfifo(root / "pipe")
    for name in ("loop", "dangling"):
        with pytest.raises(PathNotFound):
            resolve_path(root, name)
    with pytest.raises(PathNotAllowed):
        resolve_path(root, "pipe")


def test_any_write_to_a_relevant_file_changes_the_fingerprint(root: Path) -> None:
    folder = root / "models" / "tiny"
    before = resolve_path(root, "models/tiny")
    (folder / "notes.txt").write_text("irrelevant")
    check_unchanged(root, before)
    weights = folder / "model.safetensors"
    times = weights.stat().st_mtime_ns
    weights.write_bytes(one_tensor())  # the same bytes, and the same mtime: still written to
    os.utime(weights, ns=(times, times))
    with pytest.raises(SourceChanged):
        check_unchanged(root, before)
    with pytest.raises(SourceChanged):
        open_path(root, before)


def test_added_and_nested_files_change_the_fingerprint(root: Path) -> None:
    folder = root / "models" / "tiny"
    one = resolve_path(root, "models/tiny")
    (folder / "model-2.safetensors").write_bytes(one_tensor())
    two = resolve_path(root, "models/tiny")
    (folder / "0_Transformer").mkdir()
    (folder / "0_Transformer" / "model.safetensors").write_bytes(one_tensor())
    three = resolve_path(root, "models/tiny")
    assert len({one.fingerprint, two.fingerprint, three.fingerprint}) == 3
