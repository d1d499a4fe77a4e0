"""What the API tells Prometheus when callers are wild and the database is away."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from gramian.settings import Settings
from service.app import create_app


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(Settings(data_dir=tmp_path / "none-yet", redis_url="unix:///nowhere"))


@pytest.fixture
def http(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_callers_cannot_make_labels(http: TestClient) -> None:
    for number in range(5):
        http.request(f"X{number}", f"/made-up/{number}")
        http.get(f"/v1/uploads/{number}")
    counted = [line for line in http.get("/metrics").text.splitlines() if line.startswith("gramian_http_requests")]
    assert sorted(counted) == [
        'gramian_http_requests_total{method="GET",route="/v1/uploads/{upload_id}",status="503"} 5.0',
        'gramian_http_requests_total{method="other",route="unmatched",status="404"} 5.0',
    ]


def test_without_a_database_the_counts_of_the_process_are_told_all_the_same(http: TestClient) -> None:
    http.get("/livez")
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert 'gramian_http_requests_total{method="GET",route="/livez",status="200"} 1.0' in answer.text
    assert "gramian_queue_age_seconds" not in answer.text


def test_two_applications_in_one_process_count_apart(http: TestClient, tmp_path: Path) -> None:
    http.get("/livez")
    with TestClient(create_app(Settings(data_dir=tmp_path / "other", redis_url="unix:///nowhere"))) as other:
        assert "/livez" not in other.get("/metrics").text


def test_a_defect_is_answered_with_the_request_id_in_body_and_header(app: FastAPI, http: TestClient) -> None:
    def broken() -> None:
        raise RuntimeError("planted")

    app.add_api_route("/broken", broken)
    answer = http.get("/broken", headers={"X-Request-ID": "mine"})
    assert (answer.status_code, answer.json()["request_id"], answer.headers["X-Request-ID"]) == (500, "mine", "mine")
    assert 'route="/broken",status="500"} 1.0' in http.get("/metrics").text
