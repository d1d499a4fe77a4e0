"""Real servers for the tests, one set a test process, and databases of both kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from gramian.storage import schema
from gramian.storage.engine import open_engine
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gramian.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@pytest.fixture
def empty_engine(database_url: str) -> Iterator[Engine]:
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(empty_engine: Engine) -> Engine:
    """A database of each kind at the newest schema."""
    schema.upgrade(empty_engine)
    return empty_engine
