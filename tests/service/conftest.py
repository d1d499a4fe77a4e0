"""An application on a database of its own, for the tests of a module; no server, no queue."""

import pytest
from fastapi.testclient import TestClient

from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from service.app import create_app


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    settings = Settings(data_dir=tmp_path_factory.mktemp("data"), redis_url="unix:///nowhere")
    engine = open_engine(settings.sqlalchemy_url)
    schema.upgrade(engine)
    engine.dispose()
    return settings


@pytest.fixture(scope="module")
def http(settings):
    with TestClient(create_app(settings)) as client:
        yield client
