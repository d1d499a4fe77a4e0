"""One attempt: what a receiver may do, and what is written down of it."""

import gzip
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_network

import pytest

from gramian.egress import Guard
from gramian.sealing import Seal
from gramian.storage.deliveries import Parcel
from gramian.webhooks import new_secret, write_payload
from tests.servers.receiver import ADDRESS, Receiver, Reply, drip, reset
from workers.sending import MOST_KEPT_CHARACTERS, Answer, Sender

SEAL = Seal(b"k" * 32)
SECRET = new_secret()
TIMEOUT = 0.6


@pytest.fixture(scope="module")
def server() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


@pytest.fixture
def receiver(server: Receiver) -> Receiver:
    server.clear()
    return server


@pytest.fixture(scope="module")
def sender() -> Iterator[Sender]:
    sender = Sender(Guard([ip_network(ADDRESS)]), SEAL, timeout=TIMEOUT)
    yield sender
    sender.close()


def parcel(url: str, *, seal: Seal = SEAL) -> Parcel:
    payload = write_payload("webhook.ping", {}, at=datetime.now(UTC))
    return Parcel("whd_1", 1, "whe_1", url, "msg_1", "webhook.ping", payload, 0, (seal.close(SECRET),))


def sent(sender: Sender, receiver: Receiver, reply: Reply) -> Answer:
    receiver.replies.append(reply)
    return sender.send(parcel(receiver.url + "/hook"))


def test_a_request_is_json_and_says_who_sends_it(sender, receiver) -> None:
    attempt = sent(sender, receiver, Reply(200, body=b"thanks")).attempt
    (message,) = receiver.received
    assert message.verified(SECRET)["type"] == "webhook.ping"
    assert message.headers["content-type"] == "application/json"
    assert message.headers["user-agent"].startswith("Gramian/")
    assert "authorization" not in message.headers
    assert (attempt.response_status, attempt.response_body, attempt.error) == (200, "thanks", None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(sender, receiver, status) -> None:
    attempt = sent(sender, receiver, Reply(status, {"Location": receiver.url + "/elsewhere"})).attempt
    assert attempt.response_status == status
    assert [message.path for message in receiver.received] == ["/hook"]


def test_patience_asked_for_comes_with_the_answer(sender, receiver) -> None:
    assert sent(sender, receiver, Reply(503, {"Retry-After": "77"})).retry_after == 77


@pytest.mark.parametrize(("behave", "code"), [(reset, "connection_lost"), (drip, "timeout"), (time.sleep, "timeout")])
def test_what_is_no_answer_ends_in_time_and_has_a_name(sender, receiver, behave, code) -> None:
    began = time.monotonic()
    pause = (lambda _: time.sleep(2 * TIMEOUT)) if behave is time.sleep else behave
    attempt = sent(sender, receiver, Reply(behave=pause)).attempt
    assert time.monotonic() - began < 5 * TIMEOUT
    assert (attempt.response_status, attempt.error["code"]) == (None, code)


def test_nobody_there_is_told_apart(sender) -> None:
    assert sender.send(parcel(f"http://{ADDRESS}:1/")).attempt.error["code"] == "no_connection"


def test_of_a_long_answer_the_beginning_is_kept(sender, receiver) -> None:
    attempt = sent(sender, receiver, Reply(200, body=b"x" * 10_000_000)).attempt
    assert attempt.response_body == "x" * MOST_KEPT_CHARACTERS


def test_a_compressed_answer_is_not_inflated(sender, receiver) -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    attempt = sent(sender, receiver, Reply(200, {"Content-Encoding": "gzip"}, bomb)).attempt
    assert attempt.response_status == 200
    assert len(attempt.response_body) <= MOST_KEPT_CHARACTERS


def test_control_characters_of_an_answer_reach_no_terminal_and_no_database(sender, receiver) -> None:
    attempt = sent(sender, receiver, Reply(500, body=b"a\x00\x1b[31mb\xff\nc")).attempt
    assert attempt.response_body == "a��[31mb�\nc"


def test_a_status_counts_though_its_body_breaks_off(sender, receiver) -> None:
    attempt = sent(sender, receiver, Reply(200, {"Content-Length": "1000"}, b"half")).attempt
    assert attempt.response_status == 200


def test_an_inner_address_gets_no_connection_and_says_why(sender, receiver) -> None:
    other = receiver.url.replace(ADDRESS, "127.0.0.1")
    assert sender.send(parcel(other)).attempt.error["code"] == "address_forbidden"
    assert not receiver.received


def test_a_secret_sealed_under_another_key_sends_nothing_and_says_so(sender, receiver) -> None:
    attempt = sender.send(parcel(receiver.url, seal=Seal(b"l" * 32))).attempt
    assert attempt.error["code"] == "secret_unreadable"
    assert not receiver.received
