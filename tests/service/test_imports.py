"""What importing costs: no torch at the HTTP edge, no effects anywhere."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["gramian", "service.app", "service.cli", "gramian.geometry.capacity", "gramian.weights.hub"]
)
def test_importing_loads_no_torch(module: str) -> None:
    heavy = ("torch", "transformers", "matplotlib")
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_running_application_loads_no_torch(tmp_path) -> None:
    """Requests, uploads and all: in a process of its own, asked for its modules at the end."""
    code = """
import os, sys
from fastapi.testclient import TestClient
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from service.app import create_app

settings = Settings(data_dir=sys.argv[1], redis_url="unix:///nowhere")
engine = open_engine(settings.sqlalchemy_url)
schema.upgrade(engine)
engine.dispose()
with TestClient(create_app(settings)) as http:
    header = b'{"wte.weight":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}}'
    upload = http.post("/v1/uploads", content=len(header).to_bytes(8, "little") + header + bytes(32))
    assert upload.status_code == 201, upload.text
    source = {"type": "upload", "upload_id": upload.json()["id"]}
    answer = http.post("/v1/analyses", json={"kind": "embedding", "source": source})
    assert answer.status_code == 202, answer.text  # the queue is away: the row waits
    for url in ("/v1/models", "/v1/capacity?dim=64&epsilon=0.05", "/openapi.json", "/livez"):
        assert http.get(url).status_code == 200, url
    losses = {"series": [{"name": "a", "points": [[m, 50 / m + 2] for m in (64, 128, 256, 512)]}]}
    assert http.post("/v1/fits/scaling", json=losses).status_code == 200
    assert http.post("/v1/fits/packing", json={"points": "published"}).status_code == 200
    assert http.get("/v1/models/published.csv").status_code == 200
    packing = http.post("/v1/analyses", json={"kind": "packing", "vectors": 20, "dim": 5})
    assert packing.status_code == 202, packing.text
    assert http.get("/v1/scaling/region?features=5000&dim=64&exponent=1").status_code == 200
    assert http.get("/readyz").status_code == 503
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"
