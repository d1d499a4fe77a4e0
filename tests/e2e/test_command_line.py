"""`gramian` as people type it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

W = torch.randn(80, 8, generator=torch.Generator().manual_seed(11))


def gramian(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GRAMIAN_", "HF_"))}
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=clean | env, check=False)


def test_a_file_is_analysed_by_a_service_that_is_started_for_it_and_known_the_second_time(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(save({"wte.weight": W}))
    done = gramian("analyze", str(file), "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    for words in ("ε", "input embedding: wte.weight", "effective rank", "see it again"):
        assert words in done.stdout
    again = gramian("analyze", str(file), "--data-dir", str(tmp_path / "data"), "--json")
    found = json.loads(again.stdout)
    assert found["deduplicated"]
    assert found["id"] in done.stdout


def test_a_folder_is_read_in_place(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(save({"wte.weight": W}))
    (folder / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"], "tie_word_embeddings": true}')
    done = gramian("analyze", str(folder), "--data-dir", str(tmp_path / "data"), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["result"]["tying"]["finding"] == "tied"
    assert not list((tmp_path / "data" / "blobs").glob("??/*"))


def test_a_running_service_is_asked_by_its_address_or_through_its_folder(
    service: ServiceProcess, hub: LoopbackHub, tmp_path: Path
) -> None:
    hub.add_model("example/by-name", {"model.safetensors": save({"wte.weight": W, "extra": torch.ones(90, 8)})})
    first = gramian("analyze", "example/by-name", "--url", service.url, "--json")
    assert first.returncode == 0, first.stderr
    second = gramian("analyze", "example/by-name", "--data-dir", str(service.data_dir), "--json")
    assert json.loads(second.stdout)["id"] == json.loads(first.stdout)["id"]
    other = gramian("analyze", "example/by-name", "--url", service.url, "--input-tensor", "extra", "--json")
    assert json.loads(other.stdout)["result"]["matrices"][0]["tensor"] == "extra"


def test_what_goes_wrong_is_said_in_words_and_by_the_exit_code(service: ServiceProcess, tmp_path: Path) -> None:
    text = tmp_path / "notes.safetensors"
    text.write_text("not weights\n")
    unnamed = tmp_path / "unnamed.safetensors"
    unnamed.write_bytes(save({"W": W}))
    for arguments, code, words in (
        (("analyze", "example/unknown", "--url", service.url), 1, "example/unknown"),
        (("analyze", str(text), "--url", service.url), 1, "text"),
        (("analyze", str(unnamed), "--url", service.url), 1, "candidates"),
        (("analyze", "./missing.safetensors", "--url", service.url), 2, "no file or folder"),
        (("analyze", "a/b", "--url", "http://127.0.0.1:9"), 3, "no service answers"),
        (("worker",), 1, "GRAMIAN_REDIS_URL"),
    ):
        done = gramian(*arguments)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert words in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_sweep_says_what_is_old_and_deletes_it(tmp_path: Path) -> None:
    folder = {"GRAMIAN_DATA_DIR": str(tmp_path / "data"), "GRAMIAN_RETAIN_ANALYSES_DAYS": "1e-9"}
    early = gramian("sweep", **folder)
    assert (early.returncode, early.stdout) == (3, "")
    assert "gramian migrate" in early.stderr
    (tmp_path / "model.safetensors").write_bytes(save({"wte.weight": W}))
    analyse = ("analyze", str(tmp_path / "model.safetensors"), "--json")
    first = json.loads(gramian(*analyse, GRAMIAN_DATA_DIR=folder["GRAMIAN_DATA_DIR"]).stdout)
    assert gramian("sweep", "--dry-run", **folder).stdout.startswith("to delete: 1 analyses, 0 uploads")
    assert gramian("sweep", **folder).stdout.startswith("deleted: 1 analyses, 0 uploads")
    assert gramian("sweep", **folder).stdout.startswith("deleted: 0 analyses, 0 uploads")
    again = json.loads(gramian(*analyse, GRAMIAN_DATA_DIR=folder["GRAMIAN_DATA_DIR"]).stdout)
    assert again["id"] != first["id"]


def test_migrate_goes_up_and_down(tmp_path: Path) -> None:
    assert gramian("migrate", "--data-dir", str(tmp_path)).returncode == 0
    assert gramian("migrate", "--down", "--revision", "base", "--data-dir", str(tmp_path)).returncode == 0
    assert gramian("migrate", "--data-dir", str(tmp_path)).returncode == 0


def test_the_committed_openapi_document_is_the_codes_own() -> None:
    committed = Path(__file__).parents[2] / "openapi" / "openapi.json"
    assert gramian("openapi").stdout == committed.read_text()
