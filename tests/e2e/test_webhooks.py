"""Webhooks as a receiver sees them: a real one, and the real service with its sender."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from gramian.projects import EVERY
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from gramian.storage.webhook_tables import DeliveryRow
from tests.servers.cluster import small_matrix
from tests.servers.gramian_service import ServiceProcess
from tests.servers.receiver import ADDRESS, Receiver, Reply, reset

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("webhooks")]

SCHEDULE = "0,0.3,0.6,0.9"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    env = {"GRAMIAN_WEBHOOK_ALLOW": ADDRESS, "GRAMIAN_WEBHOOK_SCHEDULE_SECONDS": SCHEDULE, "GRAMIAN_DEVICE": "cpu"}
    if request.param == "postgresql":
        env["GRAMIAN_DATABASE_URL"] = request.getfixturevalue("postgres").create_database()
    folder = tmp_path_factory.mktemp(request.param)
    process = ServiceProcess(folder, env=env)
    process.engine = open_engine(env.get("GRAMIAN_DATABASE_URL") or f"sqlite:///{folder / 'gramian.db'}")
    yield process
    process.engine.dispose()
    assert process.stop() == 0


@pytest.fixture
def endpoint(service: ServiceProcess, receiver: Receiver) -> Iterator[dict[str, Any]]:
    made = service.http.post("/v1/webhook-endpoints", json={"url": receiver.url + "/hook"})
    assert made.status_code == 201, made.text
    receiver.clear()
    yield made.json()
    assert service.http.delete(f"/v1/webhook-endpoints/{made.json()['id']}").status_code == 204


def upload(service: ServiceProcess, seed: int) -> dict[str, str]:
    made = service.http.post("/v1/uploads", content=small_matrix(seed)).json()
    return {"type": "upload", "upload_id": made["id"]}


def deliveries(service: ServiceProcess, endpoint_id: str, **parameters: str) -> list[dict[str, Any]]:
    answer = service.http.get(f"/v1/webhook-endpoints/{endpoint_id}/deliveries", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def until(condition: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return found


def ended(service: ServiceProcess, endpoint_id: str) -> dict[str, Any]:
    """The only delivery of an endpoint, once it is not pending any more."""

    def look() -> dict[str, Any] | None:
        found = deliveries(service, endpoint_id)
        return found[0] if found and found[0]["status"] != "pending" else None

    delivery = until(look, "the delivery ends")
    return service.http.get(f"/v1/webhook-endpoints/{endpoint_id}/deliveries/{delivery['id']}").json()


def sender_of(service: ServiceProcess) -> psutil.Process:
    return next(process for process in service.family() if "workers.webhooks" in process.cmdline())


def test_the_end_of_an_analysis_reaches_a_receiver_that_can_verify_it(service, receiver, endpoint) -> None:
    analysis = service.analyse(upload(service, 1), labels={"run": "7"})
    (message,) = receiver.until(1)
    told = message.verified(endpoint["secret"])
    assert (told["type"], told["data"]["id"], told["data"]["labels"]) == (
        "analysis.succeeded",
        analysis["id"],
        {"run": "7"},
    )
    (matrix,) = told["data"]["matrices"]
    assert matrix["epsilon"] == analysis["result"]["matrices"][0]["epsilon"]["value"]
    delivery = ended(service, endpoint["id"])
    assert (delivery["status"], delivery["message_id"]) == ("succeeded", message.headers["webhook-id"])
    assert delivery["payload"].encode() == message.body
    (attempt,) = delivery["log"]
    assert (attempt["response_status"], attempt["url"]) == (204, receiver.url + "/hook")
    assert attempt["request_headers"]["webhook-signature"] == message.headers["webhook-signature"]


def test_failed_and_cancelled_analyses_are_told_of_too(service, receiver, endpoint) -> None:
    absent = service.http.post("/v1/uploads", content=small_matrix(2)).json()["id"]
    spec = {
        "kind": "embedding",
        "source": {"type": "upload", "upload_id": absent},
        "tensors": {"input": "nothing.weight"},
    }
    service.http.post("/v1/analyses", json=spec, headers={"Prefer": "wait=30"})
    toy = {"kind": "toy_model", "preset": "fig5", "size": "reduced"}
    asked = service.http.post("/v1/analyses", json=toy).json()["id"]
    service.http.post(f"/v1/analyses/{asked}/cancel")
    told = [message.verified(endpoint["secret"]) for message in receiver.until(2)]
    assert [each["type"] for each in told] == ["analysis.failed", "analysis.cancelled"]
    assert told[0]["data"]["error"]["code"] == "tensor_not_found"
    assert told[1]["data"]["id"] == asked


def test_a_receiver_that_fails_is_tried_again_by_the_schedule_under_the_same_id(service, receiver, endpoint) -> None:
    receiver.replies.extend([Reply(500, body=b"no\x00pe"), Reply(302, {"Location": receiver.url}), Reply(behave=reset)])
    service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/ping")
    messages = receiver.until(4)
    for message in messages:
        assert message.verified(endpoint["secret"])["type"] == "webhook.ping"
    assert len({message.headers["webhook-id"] for message in messages}) == 1
    waits = [later.at - earlier.at for earlier, later in itertools.pairwise(messages)]
    assert all(wait >= least for wait, least in zip(waits, (0.3, 0.6, 0.9), strict=True)), waits
    delivery = ended(service, endpoint["id"])
    assert (delivery["status"], delivery["attempts"]) == ("succeeded", 4)
    assert [attempt["response_status"] for attempt in delivery["log"]] == [500, 302, None, 204]
    assert delivery["log"][0]["response_body"] == "no�pe"
    assert delivery["log"][2]["error"]["code"] == "connection_lost"


def test_what_every_attempt_failed_to_bring_can_be_sent_once_more(service, receiver, endpoint) -> None:
    receiver.replies.extend([Reply(503)] * 4)
    ping = service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/ping").json()
    delivery = ended(service, endpoint["id"])
    assert (delivery["status"], delivery["reason"]) == ("failed", "every attempt failed")
    path = f"/v1/webhook-endpoints/{endpoint['id']}/deliveries/{ping['id']}/redeliver"
    assert service.http.post(path).status_code == 202
    receiver.until(5)
    delivery = ended(service, endpoint["id"])
    assert (delivery["status"], delivery["attempts"]) == ("succeeded", 5)
    replay = {"since": ping["created_at"]}
    answer = service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/replay", json=replay)
    assert answer.json() == {"redelivered": 0}  # it got through
    replay["statuses"] = ["succeeded"]
    answer = service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/replay", json=replay)
    assert answer.json() == {"redelivered": 1}
    messages = receiver.until(6)
    assert len({message.headers["webhook-id"] for message in messages}) == 1


def test_a_receiver_that_asks_for_patience_gets_it(service, receiver, endpoint) -> None:
    receiver.replies.append(Reply(429, {"Retry-After": "2"}))
    service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/ping")
    first, second = receiver.until(2)
    assert second.at - first.at >= 2


def test_a_receiver_that_is_gone_is_disabled(service, receiver, endpoint) -> None:
    receiver.replies.append(Reply(410))
    service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/ping")
    assert ended(service, endpoint["id"])["status"] == "failed"
    path = f"/v1/webhook-endpoints/{endpoint['id']}"
    found = service.http.get(path).json()
    assert (found["status"], found["reason"]) == ("disabled", "it answered 410 Gone")
    assert service.http.post(f"{path}/ping").status_code == 409
    assert service.http.patch(path, json={"status": "enabled"}).json()["status"] == "enabled"
    assert service.http.post(f"{path}/ping").status_code == 202
    receiver.until(2)


def test_both_secrets_sign_while_a_receiver_changes_over(service, receiver, endpoint) -> None:
    path = f"/v1/webhook-endpoints/{endpoint['id']}"
    rotated = service.http.post(f"{path}/rotate-secret", json={"overlap_hours": 1}).json()
    service.http.post(f"{path}/ping")
    (message,) = receiver.until(1)
    assert message.verified(endpoint["secret"]) == message.verified(rotated["secret"])
    assert len(message.headers["webhook-signature"].split()) == 2
    final = service.http.post(f"{path}/rotate-secret", json={"overlap_hours": 0}).json()
    service.http.post(f"{path}/ping")
    message = receiver.until(2)[1]
    assert message.verified(final["secret"])
    assert len(message.headers["webhook-signature"].split()) == 1


def test_a_caller_is_called_back_once_and_in_any_order(service, receiver) -> None:
    receiver.clear()
    secret = service.http.post("/v1/webhook-endpoints/callbacks/rotate-secret").json()["secret"]
    callback = {"callback": {"url": f"{receiver.url}/done"}}
    source = upload(service, 3)
    first = service.analyse(source, **callback)
    assert receiver.until(1)[0].verified(secret)["data"]["id"] == first["id"]
    again = service.analyse(source, callback={"url": f"{receiver.url}/again"})  # the answer is known: told at once
    assert again["deduplicated"]
    assert receiver.until(2)[1].path == "/again"
    service.analyse(source, callback={"url": receiver.url, "events": ["analysis.failed"]})
    log = deliveries(service, "callbacks")
    assert [each["url"] for each in log] == [f"{receiver.url}/again", f"{receiver.url}/done"]


def test_a_sender_that_is_killed_loses_no_message(service, receiver, endpoint) -> None:
    """What it had in hand is sent again once its lease has run out: the test moves the time."""
    arrived = threading.Event()
    receiver.replies.append(Reply(behave=lambda connection: (arrived.set(), connection.recv(1))))
    ping = service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/ping").json()
    assert arrived.wait(30)
    sender = sender_of(service)
    sender.kill()
    sender.wait(30)
    with UnitOfWork(service.engine, project=EVERY) as uow:
        uow.session.execute(update(DeliveryRow).where(DeliveryRow.id == ping["id"]).values(lease_until=1.0))
    first, second = receiver.until(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert ended(service, endpoint["id"])["status"] == "succeeded"


def test_a_sender_that_is_asked_to_stop_ends_what_it_has_begun(service, receiver, endpoint) -> None:
    arrived, asked = threading.Event(), threading.Event()

    def answer_late(connection: socket.socket) -> None:
        arrived.set()
        asked.wait(30)
        time.sleep(0.2)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    receiver.replies.append(Reply(behave=answer_late))
    service.http.post(f"/v1/webhook-endpoints/{endpoint['id']}/ping")
    assert arrived.wait(30)
    sender = sender_of(service)
    sender.terminate()
    asked.set()
    sender.wait(30)
    assert ended(service, endpoint["id"])["status"] == "succeeded"
    assert len(receiver.received) == 1
