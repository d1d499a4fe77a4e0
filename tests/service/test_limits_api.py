"""Limits of keys: requests a minute, unfinished analyses, bytes a day; and who did what."""

import io
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, update

from gramian.keys import Scope
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from gramian.storage.tables import UploadRow
from gramian.storage.unit_of_work import UnitOfWork
from service.app import create_app
from tests.servers.valkey import ValkeyServer
from tests.storage.questions import claim, matrix, outcome


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    yield server
    server.stop()


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    return Settings(data_dir=tmp_path, redis_url=valkey.url, require_keys=True)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = open_engine(settings.sqlalchemy_url)
    schema.upgrade(engine)
    yield engine
    engine.dispose()


def client(settings: Settings, **more: object) -> TestClient:
    return TestClient(create_app(settings.model_copy(update=more)), raise_server_exceptions=False)


@pytest.fixture
def http(engine: Engine, settings: Settings) -> Iterator[TestClient]:
    with client(settings) as found:
        yield found


def key(engine: Engine, scope: Scope = Scope.WRITE, **limits: int) -> dict[str, str]:
    with UnitOfWork(engine) as uow:
        _, secret = uow.keys.create("test", scope, limits=limits)
    return {"Authorization": f"Bearer {secret.text}"}


def packing(seed: int) -> dict[str, object]:
    return {"kind": "packing", "vectors": 20, "dim": 8, "method": "random", "seed": seed}


def weights(rows: int = 4) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.random.default_rng(rows).standard_normal((rows, 4)).astype("f4"))
    return buffer.getvalue()


# -- requests --


def test_requests_beyond_the_rate_are_refused_and_every_answer_says_what_is_left(engine, settings) -> None:
    with client(settings, rate_limit_per_minute=5) as http:
        mine, other = key(engine), key(engine)
        answers = [http.get("/v1/models", headers=mine) for _ in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        assert [answer.headers["RateLimit"].split(";")[1] for answer in answers[:5]] == [
            f"r={n}" for n in (4, 3, 2, 1, 0)
        ]
        assert {answer.headers["RateLimit-Policy"] for answer in answers} == {'"requests";q=5;w=60'}
        problem = answers[-1].json()
        assert (problem["code"], problem["status"]) == ("rate_limited", 429)
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
        assert http.get("/v1/models", headers=other).status_code == 200
        for path in ("/livez", "/readyz"):
            assert "RateLimit" not in http.get(path).headers
        assert "RateLimit" not in http.get("/v1/models").headers  # a stranger is refused anyway


def test_a_key_may_have_a_rate_of_its_own(engine, settings) -> None:
    with client(settings, rate_limit_per_minute=2) as http:
        generous = key(engine, requests_per_minute=4)
        assert [http.get("/v1/models", headers=generous).status_code for _ in range(5)] == [200] * 4 + [429]


def test_processes_count_together(engine, settings) -> None:
    mine = key(engine)
    with client(settings, rate_limit_per_minute=20) as first, client(settings, rate_limit_per_minute=20) as second:

        def ask(number: int) -> int:
            return (first, second)[number % 2].get("/v1/models", headers=mine).status_code

        with ThreadPoolExecutor(8) as threads:
            statuses = list(threads.map(ask, range(60)))
    assert statuses.count(200) == 20


def test_while_redis_is_away_everybody_is_let_through_without_waiting(engine, settings) -> None:
    with client(settings, redis_url="redis://127.0.0.1:9", rate_limit_per_minute=1) as http:
        mine = key(engine)
        started = time.monotonic()
        assert [http.get("/v1/models", headers=mine).status_code for _ in range(20)] == [200] * 20
        assert time.monotonic() - started < 5


def test_without_limits_nothing_is_said_of_them(http, engine) -> None:
    assert "RateLimit" not in http.get("/v1/models", headers=key(engine)).headers


# -- quotas --


def test_unfinished_analyses_count_until_they_end(http, engine) -> None:
    mine, other = key(engine, queued_jobs=2), key(engine, queued_jobs=2)
    ids = [http.post("/v1/analyses", json=packing(seed), headers=mine).json()["id"] for seed in (1, 2)]
    refused = http.post("/v1/analyses", json=packing(3), headers=mine)
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert int(refused.headers["Retry-After"]) > 0
    assert http.post("/v1/analyses", json=packing(1), headers=mine).json()["deduplicated"] is True
    assert http.post("/v1/analyses", json=packing(3), headers=other).status_code == 202  # nothing was kept of it
    assert http.post(f"/v1/analyses/{ids[0]}/cancel", headers=mine).status_code == 200
    http.post(f"/v1/analyses/{ids[0]}/cancel", headers=mine)
    assert http.post("/v1/analyses", json=packing(4), headers=mine).status_code == 202


def test_bytes_of_a_day_are_counted_also_when_they_were_deleted(http, engine) -> None:
    size = len(weights())
    mine = key(engine, upload_bytes_per_day=2 * size)
    for _ in range(2):
        made = http.post("/v1/uploads", content=weights(), headers=mine)
        assert made.status_code == 201
        assert http.delete(f"/v1/uploads/{made.json()['id']}", headers=mine).status_code == 204
    refused = http.post("/v1/uploads", content=weights(), headers=mine)
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert 86_000 < int(refused.headers["Retry-After"]) <= 86_400

    def chunks() -> Iterator[bytes]:  # of unknown length: counted when they are there
        yield weights()

    assert http.post("/v1/uploads", content=chunks(), headers=mine).status_code == 429
    assert list((Path(http.app.state.settings.data_dir) / "blobs" / "incoming").glob("*")) == []
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.session.execute(update(UploadRow).values(created_at=datetime.now(UTC) - timedelta(days=2)))
    assert http.post("/v1/uploads", content=weights(), headers=mine).status_code == 201


def test_only_operators_give_keys_limits_of_their_own(http, engine) -> None:
    body = {"name": "ci", "limits": {"requests_per_minute": 100, "queued_jobs": 3}}
    assert http.post("/v1/keys", json=body, headers=key(engine, Scope.ADMIN)).status_code == 403
    operator = key(engine, Scope.OPERATOR)
    made = http.post("/v1/keys", json=body, headers=operator).json()
    assert made["limits"] == {"requests_per_minute": 100, "queued_jobs": 3, "upload_bytes_per_day": None}
    successor = http.post(f"/v1/keys/{made['id']}/rotate", json={}, headers=operator).json()
    assert successor["limits"] == made["limits"]
    for limits in ({"queued_jobs": 0}, {"queued_jobs": -1}, {"queued_jobs": 1.5}, {"other": 1}, 7):
        assert http.post("/v1/keys", json={"name": "x", "limits": limits}, headers=operator).status_code == 422


# -- deletion and audit --


def test_an_analysis_that_has_ended_is_deleted_with_its_numbers_and_another_is_not(http, engine) -> None:
    mine = key(engine)
    id = http.post("/v1/analyses", json=packing(1), headers=mine | {"Idempotency-Key": "k"}).json()["id"]
    refused = http.delete(f"/v1/analyses/{id}", headers=mine)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "cancel" in refused.json()["hint"]
    fence = claim(engine, id)
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id)), gramian_version="1")
    assert http.delete(f"/v1/analyses/{id}", headers=key(engine, Scope.READ)).status_code == 403
    assert http.delete(f"/v1/analyses/{id}", headers=mine).status_code == 204
    for path in (f"/v1/analyses/{id}", f"/v1/analyses/{id}/events"):
        assert http.get(path, headers=mine).status_code == 404
    assert http.delete(f"/v1/analyses/{id}", headers=mine).status_code == 404
    again = http.post("/v1/analyses", json=packing(1), headers=mine | {"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["deduplicated"]) == (202, False)
    assert again.json()["id"] != id


def test_the_log_tells_who_did_what(http, engine) -> None:
    admin = key(engine, Scope.ADMIN)
    admin_id = http.get("/v1/access", headers=admin).json()["key_id"]
    made = http.post("/v1/keys", json={"name": "ci", "scope": "write"}, headers=admin).json()
    mine = {"Authorization": f"Bearer {made['key']}"}
    upload = http.post("/v1/uploads", content=weights(), headers=mine).json()["id"]
    analysis = http.post("/v1/analyses", json=packing(1), headers=mine).json()["id"]
    http.post("/v1/analyses", json=packing(1), headers=admin)
    for _ in range(2):
        http.post(f"/v1/analyses/{analysis}/cancel", headers=mine)
    http.delete(f"/v1/analyses/{analysis}", headers=mine)
    http.delete(f"/v1/uploads/{upload}", headers=mine)
    watch = http.post("/v1/watches", json={"model_id": "a/*"}, headers=mine).json()["id"]
    http.patch(f"/v1/watches/{watch}", json={"epsilon_shift": 0.5}, headers=mine)
    http.delete(f"/v1/watches/{watch}", headers=mine)
    endpoint = http.post("/v1/webhook-endpoints", json={"url": "https://8.8.8.8/"}, headers=admin).json()["id"]
    ping = http.post(f"/v1/webhook-endpoints/{endpoint}/ping", headers=admin).json()["id"]
    http.post(f"/v1/webhook-endpoints/{endpoint}/deliveries/{ping}/redeliver", headers=admin)
    http.post(f"/v1/webhook-endpoints/{endpoint}/replay", json={"since": "2026-01-01T00:00:00Z"}, headers=admin)
    http.post(f"/v1/webhook-endpoints/{endpoint}/rotate-secret", headers=admin)
    http.patch(f"/v1/webhook-endpoints/{endpoint}", json={"description": "x"}, headers=admin)
    http.delete(f"/v1/webhook-endpoints/{endpoint}", headers=admin)
    successor = http.post(f"/v1/keys/{made['id']}/rotate", json={}, headers=admin).json()["id"]
    http.delete(f"/v1/keys/{successor}", headers=admin)

    items = http.get("/v1/audit", params={"limit": 500}, headers=admin).json()["items"]
    assert [(item["action"], item["subject"], item["actor"]) for item in reversed(items)] == [
        ("key.created", made["id"], admin_id),
        ("upload.created", upload, made["id"]),
        ("analysis.submitted", analysis, made["id"]),
        ("analysis.submitted", analysis, admin_id),
        ("analysis.cancelled", analysis, made["id"]),
        ("analysis.cancelled", analysis, made["id"]),
        ("analysis.deleted", analysis, made["id"]),
        ("upload.deleted", upload, made["id"]),
        ("watch.created", watch, made["id"]),
        ("watch.changed", watch, made["id"]),
        ("watch.deleted", watch, made["id"]),
        ("webhook_endpoint.created", endpoint, admin_id),
        ("webhook_endpoint.pinged", endpoint, admin_id),
        ("delivery.redelivered", ping, admin_id),
        ("webhook_endpoint.replayed", endpoint, admin_id),
        ("webhook_endpoint.rotated", endpoint, admin_id),
        ("webhook_endpoint.changed", endpoint, admin_id),
        ("webhook_endpoint.deleted", endpoint, admin_id),
        ("key.rotated", made["id"], admin_id),
        ("key.revoked", successor, admin_id),
    ]
    by_key = http.get("/v1/audit", params={"actor": made["id"], "action": "watch.created"}, headers=admin).json()
    assert [item["subject"] for item in by_key["items"]] == [watch]
    of_upload = http.get("/v1/audit", params={"subject": upload, "limit": 1}, headers=admin).json()
    assert (of_upload["items"][0]["action"], bool(of_upload["next_cursor"])) == ("upload.deleted", True)
    assert http.get("/v1/audit", headers=key(engine, Scope.WRITE)).status_code == 403
    assert made["key"] not in str(items)


def test_what_fails_is_not_noted(http, engine) -> None:
    admin = key(engine, Scope.ADMIN)
    assert http.post("/v1/uploads", content=b"no weights", headers=admin).status_code == 422
    assert http.delete("/v1/analyses/an_none", headers=admin).status_code == 404
    assert http.get("/v1/audit", headers=admin).json()["items"] == []
