"""The whole service, once a test process and kind of storage, with a loopback Hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess


@pytest.fixture(scope="session")
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        yield server


@pytest.fixture(scope="session")
def path_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="session", params=["embedded", "clustered"])
def service(
    request: pytest.FixtureRequest, hub: LoopbackHub, path_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    """SQLite and the bundled Valkey, then PostgreSQL and a separate one: the same code by other addresses."""
    env = {"GRAMIAN_PATH_ROOT": str(path_root), "HF_ENDPOINT": hub.endpoint, "GRAMIAN_DEVICE": "cpu"}
    if request.param == "clustered":
        env["GRAMIAN_DATABASE_URL"] = request.getfixturevalue("postgres").create_database()
        env["GRAMIAN_REDIS_URL"] = request.getfixturevalue("valkey").url
    process = ServiceProcess(tmp_path_factory.mktemp(request.param), env=env)
    yield process
    family = process.family()
    assert process.stop() == 0
    assert not [survivor for survivor in family if survivor.is_running() and survivor.status() != "zombie"]
