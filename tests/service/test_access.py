"""Who gets in: every operation of the contract, with every kind of key that must not open it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, select

from gramian.keys import Scope, new_key
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from gramian.storage.tables import KeyRow
from gramian.storage.unit_of_work import UnitOfWork
from service.app import create_app

PUBLIC = {("GET", "/livez"), ("GET", "/readyz")}

#: What other services post to: a secret of its own opens it, and no key does.
HOOKS = {("POST", "/v1/hooks/huggingface"), ("POST", "/v1/hooks/generic")}


def operations() -> list[tuple[str, str, Scope | None]]:
    """Method, path and needed scope of everything in the contract."""
    document = create_app(Settings(redis_url="unix:///nowhere")).openapi()
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            scopes = [Scope(scope) for each in operation.get("security") or () for scope in each.get("key", ())]
            found.append((method.upper(), path, max(scopes, key=list(Scope).index, default=None)))
    return found


def settings(folder: Path, **more: object) -> Settings:
    return Settings(data_dir=folder, redis_url="unix:///nowhere", **({"require_keys": True} | more))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(settings(tmp_path).sqlalchemy_url)
    schema.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def http(engine: Engine, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(settings(tmp_path)), raise_server_exceptions=False) as client:
        yield client


def made(engine: Engine, scope: Scope, **more: object) -> tuple[str, dict[str, str]]:
    with UnitOfWork(engine) as uow:
        row, secret = uow.keys.create("test", scope, **more)
    return row.id, {"Authorization": f"Bearer {secret.text}"}


def call(http: TestClient, method: str, path: str, headers: dict[str, str] | None = None):
    return http.request(
        method, re.sub(r"\{[^}]+\}", "an_none", path), headers={"X-Request-ID": "same"} | (headers or {})
    )


def test_every_operation_declares_a_scope_or_is_public_on_purpose() -> None:
    assert {(method, path) for method, path, scope in operations() if scope is None} == PUBLIC | HOOKS
    writing = {(method, path) for method, path, scope in operations() if method in ("PUT", "PATCH", "DELETE")}
    assert all(scope != Scope.READ for method, path, scope in operations() if (method, path) in writing)


def test_no_wrong_or_ended_key_opens_anything_and_all_are_refused_alike(http: TestClient, engine: Engine) -> None:
    expired, expired_headers = made(engine, Scope.ADMIN, lifetime=timedelta(days=1))
    revoked, revoked_headers = made(engine, Scope.ADMIN)
    with UnitOfWork(engine) as uow:
        uow.keys.get(expired).expires_at = datetime.now(UTC) - timedelta(seconds=1)
        uow.keys.revoke(revoked)
    unknown = {"Authorization": f"Bearer {new_key().text}"}
    odd = [
        {"Authorization": value}
        for value in ("Bearer ", "Bearer gr_x", "Basic YTpi", f"bearer {'a' * 5000}", b"Bearer gr_\xfc")
    ]
    for method, path, scope in operations():
        if scope is None:
            answer = call(http, method, path, made(engine, Scope.OPERATOR)[1])
            assert (answer.status_code == 403) == ((method, path) in HOOKS), (method, path)
            continue
        strangers = [None, unknown, expired_headers, revoked_headers, *odd]
        answers = [call(http, method, path, headers) for headers in strangers]
        assert {answer.status_code for answer in answers} == {401}, (method, path)
        assert len({answer.content for answer in answers}) == 1
        assert answers[0].json()["code"] == "key_required"
        assert answers[0].headers["WWW-Authenticate"] == "Bearer"


def test_a_scope_that_is_missing_is_named_and_one_that_is_there_opens(http: TestClient, engine: Engine) -> None:
    keys = {scope: made(engine, scope)[1] for scope in Scope}
    for method, path, needed in operations():
        for scope, headers in keys.items():
            if needed is None or path.endswith("/events"):
                continue
            answer = call(http, method, path, headers)
            if scope.includes(needed):
                assert answer.status_code not in (401, 403), (method, path, scope, answer.text)
            else:
                assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), (method, path, scope)
                assert needed in answer.json()["detail"]


def test_metrics_need_a_key_too(http: TestClient, engine: Engine) -> None:
    assert http.get("/metrics").status_code == 401
    assert http.get("/metrics", headers=made(engine, Scope.ADMIN)[1]).status_code == 403  # it counts all projects
    assert http.get("/metrics", headers=made(engine, Scope.OPERATOR)[1]).status_code == 200


def test_a_key_lives_from_its_making_to_its_revocation(http: TestClient, engine: Engine) -> None:
    admin = made(engine, Scope.ADMIN)[1]
    answer = http.post("/v1/keys", json={"name": "ci", "scope": "write", "expires_in_days": 30}, headers=admin)
    assert answer.status_code == 201
    key = answer.json()
    mine = {"Authorization": f"Bearer {key['key']}"}
    assert http.get("/v1/analyses", headers=mine).status_code == 200
    listed = {item["id"]: item for item in http.get("/v1/keys", headers=admin).json()["items"]}
    assert (listed[key["id"]]["name"], listed[key["id"]]["live"]) == ("ci", True)
    assert listed[key["id"]]["last_used_at"] is not None
    assert "key" not in listed[key["id"]]

    successor = http.post(f"/v1/keys/{key['id']}/rotate", json={"overlap_hours": 1}, headers=admin).json()
    theirs = {"Authorization": f"Bearer {successor['key']}"}
    assert [http.get("/v1/analyses", headers=each).status_code for each in (mine, theirs)] == [200, 200]
    assert successor["scope"] == "write"

    assert http.delete(f"/v1/keys/{key['id']}", headers=admin).json()["live"] is False
    assert [http.get("/v1/analyses", headers=each).status_code for each in (mine, theirs)] == [401, 200]
    assert http.delete("/v1/keys/key_none", headers=admin).status_code == 404


def test_a_rotation_without_overlap_ends_the_old_key_at_once(http: TestClient, engine: Engine) -> None:
    admin, (id, headers) = made(engine, Scope.ADMIN)[1], made(engine, Scope.READ)
    http.post(f"/v1/keys/{id}/rotate", json={"overlap_hours": 0}, headers=admin).raise_for_status()
    assert http.get("/v1/analyses", headers=headers).status_code == 401


def test_no_secret_is_stored(http: TestClient, engine: Engine, tmp_path: Path) -> None:
    _, headers = made(engine, Scope.ADMIN)
    secret = headers["Authorization"].removeprefix("Bearer ")
    http.get("/v1/keys", headers=headers)
    with engine.connect() as connection:
        stored = str(connection.execute(select(KeyRow.__table__)).all())
    assert secret not in stored
    assert secret[12:] not in "".join(
        path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if path.is_file()
    )


def test_anonymous_reading_is_a_setting(engine: Engine, tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path, anonymous_read=True))) as http:
        assert http.get("/v1/analyses").status_code == 200
        assert http.post("/v1/analyses", json={}).status_code == 403
        assert http.get("/v1/analyses", headers={"Authorization": "Bearer gr_mistyped"}).status_code == 401


@pytest.mark.parametrize(
    ("given", "required"),
    [
        ({}, False),
        ({"host": "::1"}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "example.test"}, True),
        ({"host": "0.0.0.0", "open_network": True}, False),
        ({"host": "0.0.0.0", "open_network": True, "require_keys": True}, True),
        ({"require_keys": True}, True),
    ],
)
def test_keys_are_required_wherever_strangers_may_come_from(given: dict, required: bool) -> None:
    assert Settings(**given).keys_required is required
