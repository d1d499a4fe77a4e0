"""The whole service, once a test process and kind of storage, with a loopback Hub."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.loopback import LoopbackHub
from tests.servers.cluster import Cluster
from tests.servers.gramian_service import ServiceProcess

LEASE_SECONDS, RECONCILE_SECONDS = 1.5, 0.5
TAKEOVER_SECONDS = LEASE_SECONDS + RECONCILE_SECONDS


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


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, hub: LoopbackHub) -> Iterator[Cluster]:
    env = {
        "GRAMIAN_LEASE_SECONDS": str(LEASE_SECONDS),
        "GRAMIAN_RECONCILE_SECONDS": str(RECONCILE_SECONDS),
        "HF_ENDPOINT": hub.endpoint,
    }
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), env=env)
    yield cluster
    cluster.stop()


@pytest.fixture
def start(shared: Cluster, hub: LoopbackHub) -> Iterator[Callable[..., Cluster]]:
    """The cluster with workers of the test's own: each costs seconds, servers would cost more."""

    def start(workers: int = 1, **env: str) -> Cluster:
        for _ in range(workers):
            shared.start_worker(**env)
        return shared

    yield start
    hub.reset()
    shared.kill_workers()
