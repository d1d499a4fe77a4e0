"""Incoming webhooks: who may tell, what is understood, and that nothing is analysed twice."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine
from standardwebhooks import Webhook

from gramian.keys import Scope
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from gramian.webhooks import new_secret
from service.app import create_app
from tests.servers.hub_webhooks import KINDS, NEW, OLD, hub_webhook, pushed

SECRET = "told to the hub"
SIGNING = new_secret()
HUB = {"X-Webhook-Secret": SECRET}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path,
        redis_url="unix:///nowhere",
        hf_endpoint="http://127.0.0.1:9",  # nothing listens: the Hub is not asked
        hub_webhook_secret=SECRET,
        generic_hook_secret=SIGNING,
    )


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


def watch(http: TestClient, model_id: str = "acme/*", **more: object) -> dict:
    made = http.post("/v1/watches", json={"model_id": model_id, **more})
    assert made.status_code == 201, made.text
    return made.json()


def analyses(http: TestClient) -> list[dict]:
    return http.get("/v1/analyses", params={"limit": 500}).json()["items"]


@pytest.mark.parametrize(("payload", "commit", "words"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_each_kind_of_payload_is_the_right_analysis_or_has_a_reason(http, payload, commit, words) -> None:
    watch(http, "acme/model")
    answer = http.post("/v1/hooks/huggingface", json=payload, headers=HUB)
    told = answer.json()
    assert words in told["reason"]
    if commit is None:
        assert (answer.status_code, told["outcome"], told["analyses"]) == (200, "ignored", [])
        assert analyses(http) == []
        return
    assert (answer.status_code, told["outcome"]) == (202, "accepted")
    (found,) = analyses(http)
    assert found["id"] == told["analyses"][0]["analysis_id"]
    assert found["model"] == {"id": "acme/model", "revision": "main", "commit": commit}
    assert found["status"] == "queued"


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-Webhook-Secret": ""}, {"X-Webhook-Secret": SECRET + "x"}, {"X-Webhook-Secret": "é".encode()}],
)
def test_whoever_does_not_know_the_secret_is_refused(http, headers) -> None:
    watch(http)
    for path in ("/v1/hooks/huggingface", "/v1/hooks/huggingface?secret=", "/v1/hooks/huggingface?secret=wrong"):
        answer = http.post(path, json=pushed("acme/model", NEW), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "hook_refused")
    assert analyses(http) == []


def test_the_secret_may_stand_in_the_address(http) -> None:
    watch(http)
    answer = http.post("/v1/hooks/huggingface", params={"secret": SECRET}, json=pushed("acme/model", NEW))
    assert answer.status_code == 202


def test_hooks_without_a_secret_take_nothing(engine, settings) -> None:
    closed = settings.model_copy(update={"hub_webhook_secret": None, "generic_hook_secret": None})
    with TestClient(create_app(closed)) as http:
        for path in ("huggingface", "generic"):
            answer = http.post(f"/v1/hooks/{path}", json={}, headers={"X-Webhook-Secret": ""})
            assert (answer.status_code, answer.json()["code"]) == (403, "hook_disabled")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(http, body) -> None:
    answer = http.post("/v1/hooks/huggingface", content=body, headers=HUB)
    assert answer.status_code == 422
    signed = sign(body) if body.isascii() else {}
    assert http.post("/v1/hooks/generic", content=body, headers=signed).status_code == (422 if signed else 401)


def test_a_thousand_duplicates_are_one_analysis(http) -> None:
    watch(http, "acme/model")
    payload = pushed("acme/model", NEW, OLD)

    def post(_: int) -> tuple[int, str]:
        answer = http.post("/v1/hooks/huggingface", json=payload, headers=HUB)
        return answer.status_code, answer.json()["outcome"]

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(post, range(1000)))
    assert sorted(set(outcomes)) == [(200, "known"), (202, "accepted")]
    assert outcomes.count((202, "accepted")) == 1
    assert len(analyses(http)) == 1
    later = http.post("/v1/hooks/huggingface", json=payload | {"webhook": {"id": "another", "version": 3}}, headers=HUB)
    assert later.json()["outcome"] == "known"  # two webhooks may tell of one push
    (noted,) = http.get("/v1/audit", params={"action": "analysis.submitted"}).json()["items"]
    assert noted["actor"] == "webhook"


def test_a_hub_that_does_not_answer_does_not_keep_the_webhook_waiting(http) -> None:
    watch(http)
    started = time.monotonic()
    assert http.post("/v1/hooks/huggingface", json=pushed("acme/model", NEW), headers=HUB).status_code == 202
    assert time.monotonic() - started < 1


def test_each_watch_asks_its_own_question_and_equal_ones_share_an_analysis(http) -> None:
    same = [watch(http, "acme/model"), watch(http, "acme/*")]
    other = watch(http, "acme/model", rows={"exclude": ["duplicates"]})
    told = http.post("/v1/hooks/huggingface", json=pushed("acme/model", NEW), headers=HUB).json()["analyses"]
    by_watch = {each["watch_id"]: each["analysis_id"] for each in told}
    assert by_watch[same[0]["id"]] == by_watch[same[1]["id"]] != by_watch[other["id"]]
    assert len(analyses(http)) == 2


def test_watches_of_every_project_are_served_and_see_their_own_analyses_only(engine, settings) -> None:
    with UnitOfWork(engine) as uow:
        projects = ["default", uow.projects.create("vision").id]
    keys = []
    for project in projects:
        with UnitOfWork(engine, project=project) as uow:
            keys.append({"Authorization": f"Bearer {uow.keys.create('x', Scope.WRITE)[1].text}"})
    with TestClient(create_app(settings.model_copy(update={"require_keys": True}))) as http:
        for key in keys:
            assert http.post("/v1/watches", json={"model_id": "acme/model"}, headers=key).status_code == 201
        told = http.post("/v1/hooks/huggingface", json=pushed("acme/model", NEW), headers=HUB).json()["analyses"]
        seen = [[item["id"] for item in http.get("/v1/analyses", headers=key).json()["items"]] for key in keys]
        assert [len(each) for each in seen] == [1, 1]
        assert {each["analysis_id"] for each in told} == {seen[0][0], seen[1][0]}


# -- signed messages --


def sign(body: bytes, *, secret: str = SIGNING, at: datetime | None = None) -> dict[str, str]:
    at = at or datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", at, body.decode())
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
        "content-type": "application/json",
    }


def message(**data: object) -> bytes:
    return json.dumps({"type": "model.updated", "data": {"model_id": "acme/model", "commit": NEW, **data}}).encode()


def test_a_signed_message_of_another_tool_is_followed(http) -> None:
    watch(http, revision="nightly")
    body = message(revision="nightly")
    for expected in ("accepted", "known"):
        assert http.post("/v1/hooks/generic", content=body, headers=sign(body)).json()["outcome"] == expected
    (found,) = analyses(http)
    assert found["model"] == {"id": "acme/model", "revision": "nightly", "commit": NEW}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"commit": None}, "commit"),
        ({"commit": "main"}, "40 hexadecimal"),
        ({"model_id": 7}, "model_id"),
        ({"model_id": "a/b/c"}, "model_id"),
        ({"model_id": "acme/other"}, "no watch"),
    ],
)
def test_a_signed_message_that_asks_for_nothing_hears_why(http, data, words) -> None:
    watch(http, "acme/model")
    body = message(**data)
    answer = http.post("/v1/hooks/generic", content=body, headers=sign(body))
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ignored")
    assert words in answer.json()["reason"]


def test_what_is_not_signed_now_with_the_secret_is_refused(http) -> None:
    watch(http)
    body = message()
    good = sign(body)
    wrong = [
        {},
        sign(body, secret=new_secret()),
        sign(body + b" "),
        sign(body, at=datetime.now(UTC) - timedelta(minutes=6)),
        sign(body, at=datetime.now(UTC) + timedelta(minutes=6)),
        *(good | {"webhook-signature": odd} for odd in ("", "v1", "v1,", "v1,a,b", "v1,=", "v2,x", ",", " ", "v1,é")),
        *(good | {"webhook-timestamp": odd} for odd in ("", "soon", "nan", "inf", "1e400", "-1")),
        good | {"webhook-id": "msg_2"},
    ]
    for headers in wrong:
        raw = {name: value.encode() for name, value in headers.items()}
        answer = http.post("/v1/hooks/generic", content=body, headers=raw)
        assert (answer.status_code, answer.json()["code"]) == (401, "hook_refused"), headers
    assert analyses(http) == []


# -- watches --


def test_a_watch_is_made_changed_and_deleted(http) -> None:
    made = watch(http, "acme/run-*", epsilon_shift=0.02, rows={"exclude": []})
    assert (made["revision"], made["kind"], made["class_change"], made["rows"]) == ("main", "embedding", True, None)
    changed = http.patch(f"/v1/watches/{made['id']}", json={"epsilon_shift": None, "class_change": False})
    assert changed.json() == made | {"epsilon_shift": None, "class_change": False}
    assert http.patch(f"/v1/watches/{made['id']}", json={"class_change": True}).json()["epsilon_shift"] is None
    assert http.get(f"/v1/watches/{made['id']}").json()["class_change"] is True
    assert [each["id"] for each in http.get("/v1/watches").json()["items"]] == [made["id"]]
    assert http.post("/v1/hooks/huggingface", json=pushed("acme/run-7", NEW), headers=HUB).status_code == 202
    (revision,) = http.get(f"/v1/watches/{made['id']}/revisions").json()["items"]
    assert (revision["model_id"], revision["commit"], revision["status"]) == ("acme/run-7", NEW, "queued")
    assert http.delete(f"/v1/watches/{made['id']}").status_code == 204
    assert http.get(f"/v1/watches/{made['id']}").status_code == 404
    assert len(analyses(http)) == 1
    assert (
        http.post("/v1/hooks/huggingface", json=pushed("acme/run-7", OLD), headers=HUB).json()["outcome"] == "ignored"
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model_id": ""},
        {"model_id": "a b"},
        {"model_id": "a/b/c"},
        {"model_id": "../x"},
        {"model_id": "acme/m", "kind": "packing"},
        {"model_id": "acme/m", "epsilon_shift": 0},
        {"model_id": "acme/m", "epsilon_shift": -1},
        {"model_id": "acme/m", "epsilon_shift": "NaN"},
        {"model_id": "acme/m", "revision": ""},
        {"model_id": "acme/m", "class_change": None},
        {"model_id": "acme/m", "rows": {"exclude": ["all"]}},
        {"model_id": "acme/m", "tensors": {}},
        {"model_id": "acme/m", "unknown": 1},
        {"model_id": "acme/m\x00"},
    ],
)
def test_a_watch_that_makes_no_sense_is_refused(http, body) -> None:
    assert http.post("/v1/watches", json=body).status_code == 422


def test_a_project_has_so_many_watches_at_most(http, monkeypatch) -> None:
    monkeypatch.setattr("gramian.storage.watches.MOST_WATCHES", 2)
    watch(http), watch(http)
    answer = http.post("/v1/watches", json={"model_id": "acme/x"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_the_head_of_a_branch_that_was_seen_is_known(http) -> None:
    watch(http)
    http.post("/v1/hooks/huggingface", json=pushed("acme/model", NEW), headers=HUB)
    again = http.post("/v1/hooks/huggingface", json=hub_webhook("repo.weights", repo={"headSha": NEW}), headers=HUB)
    assert again.json()["outcome"] == "known"
