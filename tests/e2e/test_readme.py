"""Every command and snippet of the README runs as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- not run -->\n)?```(bash|python)\n(.*?)```", re.DOTALL)
ADDRESS = "http://127.0.0.1:8000"


def blocks() -> list[tuple[str, str]]:
    found = [
        (language, code) for skipped, language, code in BLOCK.findall((ROOT / "README.md").read_text()) if not skipped
    ]
    assert len(found) >= 8
    return found


VOCABULARY = "\n".join([*(f"[unused{i}]" for i in range(4)), *(f"token{i}" for i in range(86))]).encode()


@pytest.fixture(scope="module")
def readme_service(tmp_path_factory, hub: LoopbackHub):
    """The service that the README tells to start, in the folder that it tells to use."""
    folder = tmp_path_factory.mktemp("readme")
    for number, name in enumerate(("sentence-transformers/all-MiniLM-L6-v2", "example/other")):
        W = torch.randn(90, 8, generator=torch.Generator().manual_seed(number))
        W[:4] = W[0]
        files = {"model.safetensors": save({"embeddings.word_embeddings.weight": W}), "vocab.txt": VOCABULARY}
        hub.add_model(name, files)
        (folder / "model.safetensors").write_bytes(save({"wte.weight": W + 1}))
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    service = ServiceProcess(folder / "gramian-data", env={"HF_ENDPOINT": hub.endpoint})
    source = {"type": "hub", "model_id": "example/other"}
    assert service.analyse(source)["status"] == "succeeded"
    yield folder, service
    assert service.stop() == 0


@pytest.mark.parametrize(("language", "code"), blocks(), ids=lambda value: value.split("\n")[0][:60])
def test_the_readmes_block_runs(readme_service, hub: LoopbackHub, language: str, code: str) -> None:
    folder, service = readme_service
    if code.startswith("make"):
        targets = re.findall(r"^make (\w+)", code, re.MULTILINE)
        assert targets == ["demo", "test"]
        for target in targets:
            subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)
        return
    if "gramian serve" in code:  # the fixture did it, in the same words
        assert code.split() == [".venv/bin/gramian", "serve", "--data-dir", "gramian-data"]
        return
    command = [sys.executable, "-"] if language == "python" else ["bash", "-euo", "pipefail"]
    done = subprocess.run(
        command,
        input=code.replace(ADDRESS, service.url).replace("curl -s", "curl -sS --fail-with-body"),
        cwd=folder,
        env=os.environ | {"HF_ENDPOINT": hub.endpoint},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    assert '"status":"failed"' not in done.stdout
