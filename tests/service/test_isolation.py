"""Two projects on one service: whatever a key of one asks, the other's things are as if they were not there."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from gramian.keys import Scope
from gramian.projects import EVERY
from gramian.pushes import Push
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from gramian.storage.tables import AnalysisRow, FileRow, KeyRow, UploadRow
from gramian.storage.unit_of_work import UnitOfWork
from gramian.storage.watch_tables import WatchRow
from gramian.storage.webhook_tables import DeliveryRow, EndpointRow
from service.app import create_app
from tests.storage.questions import claim, matrix, outcome, question

#: What the other project has, by the name of the path parameter that points to it. A new parameter must be added here.
FOREIGN = {
    "analysis_id": "an_foreign",
    "upload_id": "upl_foreign",
    "key_id": "key_foreign",
    "endpoint_id": "whe_foreign",
    "delivery_id": "whd_foreign",
    "watch_id": "wat_foreign",
    "org": "org",
    "name": "vectors",
}

BODIES = {
    ("POST", "/v1/keys/{key_id}/rotate"): {"overlap_hours": 1},
    ("POST", "/v1/webhook-endpoints/{endpoint_id}/replay"): {"since": "2026-01-01T00:00:00Z"},
    ("PATCH", "/v1/webhook-endpoints/{endpoint_id}"): {"description": "mine"},
    ("PATCH", "/v1/watches/{watch_id}"): {"epsilon_shift": None},
}

UPLOAD = {"type": "upload", "upload_id": "upl_foreign"}
PACKING = {"kind": "packing", "vectors": 20, "dim": 8, "method": "random"}

#: Other ways to name or to find what is foreign. Lists without parameters are asked anyway.
REFERENCES = [
    ("POST", "/v1/analyses", {"kind": "embedding", "source": UPLOAD}),
    ("GET", "/v1/analyses?model_id=org/foreign", None),
    ("GET", "/v1/analyses?label=team:foreign", None),
    ("GET", "/v1/models?q=foreign", None),
    ("GET", "/v1/models/org/foreign/history", None),
    ("GET", "/v1/models/org/foreign/history.csv", None),
    ("GET", "/v1/models/org/foreign/history.svg", None),
    ("GET", "/v1/comparisons?analysis=an_foreign&analysis=an_foreign", None),
    ("GET", "/v1/comparisons?model=org/foreign&model=org/foreign@main", None),
    ("POST", "/v1/fits/overlap", {"analyses": ["an_foreign"]}),
    ("POST", "/v1/fits/overlap", {"query": {"model_id": "org/foreign"}}),
    ("POST", "/v1/keys", {"name": "x", "project": "foreign"}),
    ("POST", "/v1/projects", {"name": "foreign"}),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, redis_url="unix:///nowhere", require_keys=True)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = open_engine(settings.sqlalchemy_url)
    schema.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def http(engine: Engine, settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def key(engine: Engine, project: str, scope: Scope = Scope.ADMIN) -> dict[str, str]:
    with UnitOfWork(engine, project=project) as uow:
        _, secret = uow.keys.create("test", scope)
    return {"Authorization": f"Bearer {secret.text}", "X-Request-ID": "same"}


def fill(engine: Engine, project: str) -> None:
    """One of everything, under ids that are known."""
    now = datetime.now(UTC)
    with UnitOfWork(engine, project=project) as uow:
        uow.uploads.add(
            UploadRow(
                id="upl_foreign",
                filename="f",
                size=1,
                sha256="0" * 64,
                format="npy",
                tensors=[{"name": "array", "dtype": "F32", "shape": [4, 4]}],
                created_at=now,
            )
        )
        uow.session.add(
            KeyRow(id="key_foreign", name="x", scope="read", shown="gr_foreign", sha256="0" * 64, created_at=now)
        )
        endpoint = EndpointRow(
            id="whe_foreign",
            url="https://192.0.2.1/",
            events=["*"],
            description="",
            status="enabled",
            secret="sealed",
            created_at=now,
        )
        uow.session.add(endpoint)
        uow.session.flush()
        uow.webhooks.ping(endpoint).id = "whd_foreign"
        watch = uow.watches.create(
            model_id="org/foreign", revision="main", kind="embedding", question={}, epsilon_shift=1.0, class_change=True
        )
        watch.id = "wat_foreign"
        uow.session.flush()
        uow.watches.enrol(watch, Push("org/foreign", "main", "c" * 40))
        analysis = question(id="an_foreign", model_id="org/foreign", revision="main", commit="c" * 40)
        uow.analyses.accept(analysis, {"team": "foreign"})
    fence = claim(engine, "an_foreign")
    with UnitOfWork(engine, project=EVERY) as uow:
        measured = matrix("an_foreign")
        uow.jobs.succeed("an_foreign", fence, outcome(measured), gramian_version="1")
        uow.session.add(FileRow(analysis_id="an_foreign", name="vectors.safetensors", sha256="0" * 64, size=1))


def requests(http: TestClient) -> list[tuple[str, str, object]]:
    """Everything that could tell of another project's things."""
    found = list(REFERENCES)
    for path, methods in http.app.openapi()["paths"].items():
        for method in map(str.upper, methods):
            if "{" in path or method == "GET":
                url = re.sub(r"\{([^}]+)\}", lambda match: FOREIGN[match[1]], path)
                found.append((method, url, BODIES.get((method, path))))
    return found


def ask(http: TestClient, headers: dict[str, str], method: str, url: str, body: object) -> tuple[object, ...]:
    answer = http.request(method, url, json=body, headers=headers)
    return answer.status_code, answer.content, sorted(answer.headers.items())


def contents(engine: Engine, project: str) -> list[dict[str, object]]:
    """All columns of what `fill` made."""
    rows = (
        (AnalysisRow, "an_foreign"),
        (UploadRow, "upl_foreign"),
        (KeyRow, "key_foreign"),
        (EndpointRow, "whe_foreign"),
        (DeliveryRow, "whd_foreign"),
        (WatchRow, "wat_foreign"),
    )
    with UnitOfWork(engine, project=project, writes=False) as uow:
        found = [(uow.session.get(table, id), table.__table__.columns) for table, id in rows]
        return [{column.key: getattr(row, column.key) for column in columns} for row, columns in found]


def test_what_is_another_projects_is_byte_for_byte_like_what_is_not_there(http: TestClient, engine: Engine) -> None:
    with UnitOfWork(engine) as uow:
        foreign = uow.projects.create("elsewhere").id
    theirs = key(engine, foreign)
    keys = [key(engine, "default", scope) for scope in (Scope.READ, Scope.WRITE, Scope.ADMIN)]
    for each in keys:
        http.get("/v1/access", headers=each)  # its use is noted: keys tell of that
    asked = requests(http)
    before = [[ask(http, each, *request) for request in asked] for each in keys]

    fill(engine, foreign)
    there = contents(engine, foreign)
    for each, answers in zip(keys, before, strict=True):
        for request, first in zip(asked, answers, strict=True):
            assert ask(http, each, *request) == first, request
    assert contents(engine, foreign) == there

    for request, stranger in zip(asked, before[-1], strict=True):
        if request[0] == "GET" and "foreign" in request[1]:  # else the test would ask what tells nobody anything
            assert ask(http, theirs, *request)[:2] != stranger[:2], request


def test_an_answer_that_another_project_has_is_not_given_away(http: TestClient, engine: Engine) -> None:
    with UnitOfWork(engine) as uow:
        foreign = uow.projects.create("elsewhere").id
    mine, theirs = key(engine, "default"), key(engine, foreign)
    for headers in (theirs, mine):
        answer = http.post("/v1/analyses", json=PACKING, headers=headers | {"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["deduplicated"]) == (202, False)
        assert "Idempotency-Replayed" not in answer.headers
        assert [item["id"] for item in http.get("/v1/analyses", headers=headers).json()["items"]] == [
            answer.json()["id"]
        ]


def test_an_operator_makes_projects_and_their_first_keys(http: TestClient, engine: Engine) -> None:
    operator = key(engine, "default", Scope.OPERATOR)
    assert http.post("/v1/projects", json={"name": "interp"}, headers=operator).status_code == 201
    assert http.post("/v1/projects", json={"name": "interp"}, headers=operator).status_code == 409
    assert [each["name"] for each in http.get("/v1/projects", headers=operator).json()["items"]] == [
        "default",
        "interp",
    ]
    made = http.post("/v1/keys", json={"name": "lead", "scope": "admin", "project": "interp"}, headers=operator)
    lead = {"Authorization": f"Bearer {made.json()['key']}"}
    assert http.get("/v1/access", headers=lead).json() == {
        "project": "interp",
        "scope": "admin",
        "key_id": made.json()["id"],
    }
    rotated = http.post(f"/v1/keys/{made.json()['id']}/rotate", json={"overlap_hours": 1}, headers=lead).json()
    successor = {"Authorization": f"Bearer {rotated['key']}"}
    assert http.get("/v1/access", headers=successor).json()["project"] == "interp"
    assert len(http.get("/v1/keys", headers=successor).json()["items"]) == 2
    assert len(http.get("/v1/keys", headers=operator).json()["items"]) == 1


def test_nobody_makes_or_renews_a_key_that_permits_more_than_his_own(http: TestClient, engine: Engine) -> None:
    admin = key(engine, "default")
    with UnitOfWork(engine) as uow:
        operators, _ = uow.keys.create("root", Scope.OPERATOR)
    for method, path, body in (
        ("POST", "/v1/keys", {"name": "x", "scope": "operator"}),
        ("POST", "/v1/keys", {"name": "x", "scope": "read", "project": "default"}),
        ("POST", f"/v1/keys/{operators.id}/rotate", {"overlap_hours": 0}),
        ("DELETE", f"/v1/keys/{operators.id}", None),
        ("POST", "/v1/projects", {"name": "x"}),
        ("GET", "/v1/projects", None),
    ):
        answer = http.request(method, path, json=body, headers=admin)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), (method, path)
    with UnitOfWork(engine) as uow:
        assert uow.keys.get(operators.id).is_live(datetime.now(UTC))


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a b", "a/b", "ä", "a" * 64, "a\n", "a\x00", None, 7])
def test_names_that_cannot_stand_in_a_command_line_are_refused(http: TestClient, engine: Engine, name) -> None:
    operator = key(engine, "default", Scope.OPERATOR)
    assert http.post("/v1/projects", json={"name": name}, headers=operator).status_code == 422
