from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import stamina

from tests.hub.loopback import LoopbackHub
from tests.weights.reading_hub import FILES, MODEL


@pytest.fixture(autouse=True)
def retries_without_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=4, cap=True):
        yield


@pytest.fixture(scope="session")
def running_hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        yield hub


@pytest.fixture
def hub(running_hub: LoopbackHub) -> LoopbackHub:
    running_hub.reset()
    running_hub.tokens.clear()
    return running_hub


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: bytes, name: str = "model.safetensors") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def commit(hub: LoopbackHub) -> str:
    return hub.add_model(MODEL, FILES)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path
