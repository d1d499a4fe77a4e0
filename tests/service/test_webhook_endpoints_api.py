"""Endpoints of webhooks over HTTP: their secrets, their addresses, their log."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage.tables import Base
from gramian.storage.unit_of_work import UnitOfWork
from gramian.storage.webhooks import MOST_CALLBACKS, MOST_ENDPOINTS
from service.app import create_app
from tests.test_egress import HOSTS

URL = "https://192.0.0.9:8443/hook?a=b"  # of a network that the settings below allow: nobody is asked for a name
PACKING = {"kind": "packing", "vectors": 20, "dim": 8, "method": "random"}


@pytest.fixture
def http(engine: Engine, tmp_path) -> Iterator[TestClient]:
    url = engine.url.render_as_string(hide_password=False)
    settings = Settings(data_dir=tmp_path, redis_url="unix:///nowhere", database_url=url, webhook_allow="192.0.0.8/29")
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def create(http: TestClient, **values: object) -> dict:
    answer = http.post("/v1/webhook-endpoints", json={"url": URL} | values)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_secret_is_shown_once_and_stored_sealed(http, engine) -> None:
    made = create(http, description="ours")
    path = f"/v1/webhook-endpoints/{made['id']}"
    rotated = http.post(f"{path}/rotate-secret").json()
    assert made["secret"].startswith("whsec_")
    assert made["secret"] != rotated["secret"]
    assert rotated["old_secret_until"] is not None
    for answer in (http.get(path), http.get("/v1/webhook-endpoints"), http.patch(path, json={})):
        assert "secret" not in answer.text.replace("old_secret_until", "")
    for table in Base.metadata.sorted_tables:
        with engine.connect() as connection:
            for row in connection.execute(table.select()):
                assert "whsec" not in str(row)
                assert made["secret"][6:20] not in str(row)


def test_an_endpoint_is_made_looked_at_changed_and_deleted(http) -> None:
    made = create(http)
    assert (made["events"], made["status"], made["url"]) == (["*"], "enabled", URL)
    path = f"/v1/webhook-endpoints/{made['id']}"
    changed = http.patch(path, json={"events": ["analysis.failed"], "description": "x", "status": "disabled"}).json()
    assert (changed["events"], changed["description"]) == (["analysis.failed"], "x")
    assert (changed["status"], changed["reason"]) == ("disabled", "it was disabled over the API")
    assert http.get("/v1/webhook-endpoints").json()["items"] == [changed]
    for action, body in (("ping", None), ("replay", {"since": made["created_at"]})):
        answer = http.post(f"{path}/{action}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert http.delete(path).status_code == 204
    assert http.get(path).json()["code"] == "not_found"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": None},
        {"url": ""},
        {"url": 7},
        {"url": "example.org/hook"},
        {"url": "ftp://192.0.0.9/"},
        {"url": "javascript:alert(1)"},
        {"url": "http://"},
        {"url": "http:///path"},
        {"url": "http://192.0.0.9:99999/"},
        {"url": "http://192.0.0.9:x/"},
        {"url": "http://user:password@192.0.0.9/"},
        {"url": "http://user@192.0.0.9/"},
        {"url": "http://192.0.0.9/\nX: y"},
        {"url": "http://192.0.0.9/ a"},
        {"url": "http://[::1/"},
        {"url": "http://" + "a" * 3000},
        {"url": "http://" + "a" * 300 + ".example/"},
        {"url": "http://192.0.0.9:0/"},
        {"url": URL, "events": []},
        {"url": URL, "events": ["analysis.began"]},
        {"url": URL, "events": "analysis.failed"},
        {"url": URL, "description": "\u0000"},
        {"url": URL, "description": "x" * 401},
        {"url": URL, "secret": "mine"},
    ],
)
def test_what_is_no_endpoint_is_refused_with_the_reason(http, body) -> None:
    answer = http.post("/v1/webhook-endpoints", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] in ("invalid_request", "invalid_url")
    assert answer.json()["hint"]
    assert "password" not in answer.text.replace("user or a password", "")


@pytest.mark.parametrize("where", ["endpoint", "change", "callback"])
def test_no_spelling_of_an_inner_address_is_taken(http, where) -> None:
    path = f"/v1/webhook-endpoints/{create(http)['id']}"
    for host in HOSTS:
        url = f"http://{host}/hook"
        answer = {
            "endpoint": lambda url=url: http.post("/v1/webhook-endpoints", json={"url": url}),
            "change": lambda url=url: http.patch(path, json={"url": url}),
            "callback": lambda url=url: http.post("/v1/analyses", json=PACKING | {"callback": {"url": url}}),
        }[where]()
        # a spelling that this machine takes for a name without an address would fail when it is sent to
        known = answer.status_code == 422
        assert known or host in UNKNOWN_NAMES, (host, answer.text)
    assert len(HOSTS) >= 80


#: What a resolver may know or not: on a machine without them they are names that do not exist.
UNKNOWN_NAMES = {"ip6-localhost", "127.0.0.1.", "localhost."} | {host for host in HOSTS if not host.isascii()}


def test_nobody_has_more_endpoints_than_there_can_be(http, engine) -> None:
    with UnitOfWork(engine) as uow:
        for _ in range(MOST_ENDPOINTS):
            uow.webhooks.create(url=URL, events=["*"], description="", sealed_secret="x")
    answer = http.post("/v1/webhook-endpoints", json={"url": URL})
    assert answer.status_code == 409
    assert f"{MOST_ENDPOINTS} webhook endpoints" in answer.json()["detail"]


# -- deliveries -----------------------------------------------------------------------------------------------


def test_a_ping_waits_for_the_sender_and_can_be_looked_at(http) -> None:
    path = f"/v1/webhook-endpoints/{create(http)['id']}"
    answer = http.post(f"{path}/ping")
    assert answer.status_code == 202
    ping = answer.json()
    assert (ping["type"], ping["status"], ping["url"], ping["attempts"]) == ("webhook.ping", "pending", URL, 0)
    assert ping["next_attempt_at"] is not None
    detail = http.get(f"{path}/deliveries/{ping['id']}").json()
    assert (detail["log"], '"webhook.ping"' in detail["payload"]) == ([], True)
    assert http.get(f"{path}/deliveries/whd_none").status_code == 404
    other = f"/v1/webhook-endpoints/{create(http)['id']}"
    assert http.get(f"{other}/deliveries/{ping['id']}").status_code == 404


def test_deliveries_are_listed_in_pages_the_newest_first(http) -> None:
    path = f"/v1/webhook-endpoints/{create(http)['id']}"
    made = [http.post(f"{path}/ping").json()["id"] for _ in range(5)]
    first = http.get(f"{path}/deliveries", params={"limit": 3}).json()
    second = http.get(f"{path}/deliveries", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert [each["id"] for each in first["items"] + second["items"]] == made[::-1]
    assert second["next_cursor"] is None
    assert http.get(f"{path}/deliveries", params={"status": "failed"}).json()["items"] == []
    assert len(http.get(f"{path}/deliveries", params={"type": "webhook.ping"}).json()["items"]) == 5
    assert http.get(f"{path}/deliveries", params={"status": "lost"}).status_code == 422


@pytest.mark.parametrize("since", ["2026-01-01T00:00:00", "yesterday", None, 10**30])
def test_a_replay_needs_a_time_with_its_zone(http, since) -> None:
    path = f"/v1/webhook-endpoints/{create(http)['id']}"
    assert http.post(f"{path}/replay", json={"since": since}).status_code == 422


# -- callbacks ------------------------------------------------------------------------------------------------


def test_callbacks_have_a_secret_and_a_log_but_no_address_of_their_own(http) -> None:
    path = "/v1/webhook-endpoints/callbacks"
    assert http.get(path).status_code == 404  # nobody has asked to be called back
    secret = http.post(f"{path}/rotate-secret").json()["secret"]
    assert secret.startswith("whsec_")
    found = http.get(path).json()
    assert (found["url"], found["status"]) == (None, "enabled")
    assert http.get(f"{path}/deliveries").json()["items"] == []
    assert http.get(f"/v1/webhook-endpoints/{found['id']}").json() == found
    for method, url, body in (
        ("DELETE", path, None),
        ("PATCH", path, {"status": "disabled"}),
        ("POST", f"{path}/ping", None),
    ):
        answer = http.request(method, url, json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict"), method


def test_a_callback_is_kept_for_the_end_of_its_analysis(http, engine) -> None:
    asked = http.post("/v1/analyses", json=PACKING | {"callback": {"url": URL}})
    assert asked.status_code == 202
    assert "callback" not in asked.json()["spec"]
    again = http.post("/v1/analyses", json=PACKING)
    assert again.json()["id"] == asked.json()["id"]  # where to call back is not part of the question
    for _ in range(2):
        assert http.post(f"/v1/analyses/{asked.json()['id']}/cancel").status_code == 200
    (made,) = http.get("/v1/webhook-endpoints/callbacks/deliveries").json()["items"]
    assert (made["type"], made["url"]) == ("analysis.cancelled", URL)


def test_an_analysis_has_so_many_callbacks_and_not_more(http) -> None:
    for number in range(MOST_CALLBACKS):
        callback = {"callback": {"url": f"{URL}{number}"}}
        assert http.post("/v1/analyses", json=PACKING | callback).status_code in (200, 202)
    answer = http.post("/v1/analyses", json=PACKING | {"callback": {"url": URL}})
    assert answer.status_code == 409


@pytest.mark.parametrize(
    "callback", [{}, {"url": 1}, {"url": URL, "events": ["webhook.ping"]}, {"url": URL, "events": []}, "x", []]
)
def test_a_callback_that_cannot_be_made_asks_nothing(http, engine, callback) -> None:
    assert http.post("/v1/analyses", json=PACKING | {"callback": callback}).status_code == 422
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        found = uow.analyses.search(kind=None, status=None, model_id=None, labels=[], sort="id", cursor=None, limit=1)
    assert found.items == []


def test_the_same_request_under_one_key_calls_back_once(http) -> None:
    body, key = PACKING | {"callback": {"url": URL}}, {"Idempotency-Key": "k"}
    first, second = (http.post("/v1/analyses", json=body, headers=key) for _ in range(2))
    assert second.headers["Idempotency-Replayed"] == "true"
    http.post(f"/v1/analyses/{first.json()['id']}/cancel")
    assert len(http.get("/v1/webhook-endpoints/callbacks/deliveries").json()["items"]) == 1
