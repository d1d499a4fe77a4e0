"""Deliveries are made with what they tell of, taken by one sender at a time, and follow their schedule."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select, update

from gramian.errors import LeaseLost
from gramian.projects import EVERY
from gramian.storage.deliveries import MOST_AT_ONCE, Attempt, Parcel
from gramian.storage.unit_of_work import UnitOfWork
from gramian.storage.webhook_tables import AttemptRow, DeliveryRow, EndpointRow
from gramian.webhooks import SCHEDULE_SECONDS, Verdict, judge, seconds_to_next
from tests.storage.questions import ERROR, claim, expire_lease, matrix, outcome

URL = "https://receiver.example/hook"


@pytest.fixture
def endpoint(engine: Engine) -> str:
    return make_endpoint(engine)


def make_endpoint(engine: Engine, *events: str, project: str = "default") -> str:
    with UnitOfWork(engine, project=project) as uow:
        made = uow.webhooks.create(url=URL, events=events or ("*",), description="", sealed_secret="sealed")
        return made.id


def ping(engine: Engine, endpoint_id: str) -> str:
    with UnitOfWork(engine) as uow:
        return uow.webhooks.ping(uow.webhooks.get(endpoint_id)).id


def take(engine: Engine, *, lease_seconds: float = 60) -> Parcel | None:
    with UnitOfWork(engine, project=EVERY) as uow:
        return uow.deliveries.claim(lease_seconds=lease_seconds)


def conclude(engine: Engine, parcel: Parcel, status: int | None, *, at: datetime | None = None, asked=None) -> bool:
    attempt = Attempt(at or datetime.now(UTC), 0.1, parcel.url, {"webhook-id": parcel.message_id}, status, "text")
    wait = seconds_to_next(parcel.tries + 1, asked=asked)
    with UnitOfWork(engine, project=EVERY) as uow:
        return uow.deliveries.conclude(parcel, attempt, judge(status), next_seconds=wait, pause_days=5)


def waits(engine: Engine, id: str) -> float:
    """Seconds until the delivery is due."""
    from gramian.storage.engine import database_epoch

    with engine.connect() as connection:
        query = select(DeliveryRow.due_at - database_epoch()).where(DeliveryRow.id == id)
        return connection.scalar(query)


def make_due(engine: Engine, id: str) -> None:
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.session.execute(update(DeliveryRow).where(DeliveryRow.id == id).values(due_at=1.0))


def delivery(engine: Engine, id: str) -> DeliveryRow:
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        return uow.session.get_one(DeliveryRow, id)


def all_deliveries(engine: Engine) -> list[DeliveryRow]:
    with UnitOfWork(engine, project=EVERY, writes=False) as uow:
        return list(uow.session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)))


# -- made in the job's own transaction ------------------------------------------------------------------------


def test_a_result_and_its_deliveries_are_stored_together_or_not_at_all(engine, accept, endpoint) -> None:
    id = accept("a")
    fence = claim(engine, id)
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id)), gramian_version="1")
        uow.session.rollback()
    assert all_deliveries(engine) == []
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id, epsilon=0.07)), gramian_version="1")
    (made,) = all_deliveries(engine)
    told = json.loads(made.payload)
    assert (made.type, told["type"]) == ("analysis.succeeded",) * 2
    assert told["data"]["matrices"][0]["epsilon"] == 0.07
    with pytest.raises(LeaseLost), UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id)), gramian_version="1")
    assert len(all_deliveries(engine)) == 1


def test_failed_cancelled_and_buried_analyses_are_told_of(engine, accept: Callable[..., str], endpoint) -> None:
    failed, cancelled, buried = (accept(name) for name in "abc")
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.fail(failed, uow.jobs.claim(failed, lease_seconds=30).fence, ERROR)
    with UnitOfWork(engine) as uow:
        uow.analyses.cancel(cancelled)
        uow.analyses.cancel(cancelled)  # nothing happens a second time
    fence = claim(engine, buried)
    expire_lease(engine, buried)
    with UnitOfWork(engine, project=EVERY) as uow:
        assert uow.jobs.bury(buried, fence, ERROR)
        assert not uow.jobs.bury(buried, fence, ERROR)
    told = [(row.type, json.loads(row.payload)["data"]["id"]) for row in all_deliveries(engine)]
    assert told == [("analysis.failed", failed), ("analysis.cancelled", cancelled), ("analysis.failed", buried)]


def test_an_endpoint_is_told_what_it_asked_for_and_of_its_own_project(engine, accept) -> None:
    wanted = make_endpoint(engine, "analysis.failed", "analysis.cancelled")
    make_endpoint(engine, "analysis.succeeded")
    make_endpoint(engine, "*", project="elsewhere")
    disabled = make_endpoint(engine)
    with UnitOfWork(engine) as uow:
        uow.webhooks.change(uow.webhooks.get(disabled), status="disabled")
    every = make_endpoint(engine)
    id = accept("a")
    with UnitOfWork(engine) as uow:
        uow.analyses.cancel(id)
    made = all_deliveries(engine)
    assert {row.endpoint_id for row in made} == {wanted, every}
    assert len({row.message_id for row in made}) == 1  # one message, told twice


def test_a_payload_stays_below_twenty_kilobytes_whatever_an_analysis_carries(engine, accept, endpoint) -> None:
    labels = {f"label{number}": "ü" * 400 for number in range(32)}
    id = accept("a", labels, model_id="m" * 1024, commit="c" * 64)
    with UnitOfWork(engine, project=EVERY) as uow:
        error = ERROR | {"detail": "d" * 100_000}
        uow.jobs.fail(id, uow.jobs.claim(id, lease_seconds=30).fence, error)
    (made,) = all_deliveries(engine)
    assert len(made.payload.encode()) < 20_000
    assert json.loads(made.payload)["data"]["labels"] is None


# -- taken by one ---------------------------------------------------------------------------------------------


def test_of_many_senders_each_delivery_goes_to_one(engine) -> None:
    for _ in range(5):
        ids = [ping(engine, make_endpoint(engine)) for _ in range(2)]
    ids = [row.id for row in all_deliveries(engine)]
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda _: take(engine), range(24)))
    assert sorted(parcel.id for parcel in taken if parcel) == ids


def test_a_delivery_whose_sender_is_gone_is_taken_by_another_and_the_first_ones_word_is_void(engine, endpoint) -> None:
    id = ping(engine, endpoint)
    first = take(engine)
    assert take(engine) is None
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.session.execute(update(DeliveryRow).values(lease_until=1.0))
    second = take(engine)
    assert (second.id, second.message_id, second.fence) == (id, first.message_id, first.fence + 1)
    assert not conclude(engine, first, 500)
    assert conclude(engine, second, 204)
    assert (delivery(engine, id).status, delivery(engine, id).attempts) == ("succeeded", 1)


def test_a_slow_receiver_does_not_keep_others_waiting(engine, endpoint) -> None:
    for _ in range(MOST_AT_ONCE + 2):
        ping(engine, endpoint)
    other = make_endpoint(engine)
    ping(engine, other)
    taken = [take(engine) for _ in range(MOST_AT_ONCE + 2)]
    assert [parcel.endpoint_id for parcel in taken if parcel] == [endpoint] * MOST_AT_ONCE + [other]
    assert conclude(engine, taken[0], 204)
    assert take(engine).endpoint_id == endpoint


# -- the schedule ---------------------------------------------------------------------------------------------


def test_failed_attempts_follow_the_schedule_to_its_end(engine, endpoint) -> None:
    id = ping(engine, endpoint)
    for wait in (*SCHEDULE_SECONDS[1:], None):
        make_due(engine, id)
        parcel = take(engine)
        assert conclude(engine, parcel, 500)
        if wait is not None:
            assert waits(engine, id) == pytest.approx(wait, abs=5)
            assert take(engine) is None
    ended = delivery(engine, id)
    assert (ended.status, ended.attempts, ended.reason) == ("failed", 10, "every attempt failed")
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(AttemptRow)) == 10


def test_a_receivers_wish_for_patience_moves_the_next_attempt(engine, endpoint) -> None:
    id = ping(engine, endpoint)
    assert conclude(engine, take(engine), 429, asked=3600)
    assert waits(engine, id) == pytest.approx(3600, abs=5)


def test_gone_disables_the_endpoint_and_ends_what_waits_for_it(engine, endpoint) -> None:
    first, second = ping(engine, endpoint), ping(engine, endpoint)
    assert conclude(engine, take(engine), 410)
    assert [delivery(engine, id).status for id in (first, second)] == ["failed", "failed"]
    with UnitOfWork(engine) as uow:
        found = uow.webhooks.get(endpoint)
        assert (found.status, found.reason) == ("disabled", "it answered 410 Gone")


def test_an_endpoint_that_fails_for_five_days_is_paused_and_what_it_misses_is_held(engine, accept, endpoint) -> None:
    first = ping(engine, endpoint)
    start = datetime.now(UTC) - timedelta(days=6)
    assert conclude(engine, take(engine), 500, at=start)
    make_due(engine, first)
    assert conclude(engine, take(engine), None, at=start + timedelta(days=4.9))
    with UnitOfWork(engine) as uow:
        assert uow.webhooks.get(endpoint).status == "enabled"
    make_due(engine, first)
    assert conclude(engine, take(engine), 500, at=start + timedelta(days=5))
    with UnitOfWork(engine) as uow:
        paused = uow.webhooks.get(endpoint)
        assert paused.status == "paused"
        assert f"every attempt failed since {start:%Y-%m-%d %H:%M}" in paused.reason
    with UnitOfWork(engine) as uow:
        uow.analyses.cancel(accept("missed"))
    assert [row.status for row in all_deliveries(engine)] == ["held", "held"]
    assert take(engine) is None
    with UnitOfWork(engine) as uow:
        row = uow.webhooks.change(uow.webhooks.get(endpoint), status="enabled")
        assert (row.failing_since, row.reason) == (None, None)
        assert uow.webhooks.replay(row, since=start, statuses=["failed", "held"]) == 2
    assert {take(engine).id, take(engine).id} == {row.id for row in all_deliveries(engine)}


def test_one_success_ends_a_time_of_failure(engine, endpoint) -> None:
    start = datetime.now(UTC) - timedelta(days=6)
    ping(engine, endpoint)
    conclude(engine, take(engine), 500, at=start)
    ping(engine, endpoint)
    conclude(engine, take(engine), 204)
    ping(engine, endpoint)
    conclude(engine, take(engine), 500)
    with UnitOfWork(engine) as uow:
        assert uow.webhooks.get(endpoint).status == "enabled"


def test_a_delivery_under_way_can_be_begun_again_and_is_sent_once_more(engine, endpoint) -> None:
    id = ping(engine, endpoint)
    before = take(engine)
    with UnitOfWork(engine) as uow:
        uow.webhooks.redeliver(uow.webhooks.delivery(uow.webhooks.get(endpoint), id))
    assert not conclude(engine, before, 500)
    assert take(engine).id == id


# -- callbacks ------------------------------------------------------------------------------------------------


def test_callbacks_share_a_secret_and_are_not_paused_with_one_another(engine, accept) -> None:
    from gramian.storage.announcing import call_back

    id = accept("a")
    with UnitOfWork(engine) as uow:
        shared = uow.webhooks.ensure_callbacks(sealed_secret="first").id
        assert uow.webhooks.ensure_callbacks(sealed_secret="second").secret == "first"
        for url in ("https://a.example", "https://b.example", "https://a.example"):
            call_back(uow.session, uow.analyses.get(id), url=url, events=["*"])
    with UnitOfWork(engine) as uow:
        uow.analyses.cancel(id)
    parcels = [take(engine), take(engine)]
    assert sorted(parcel.url for parcel in parcels) == ["https://a.example", "https://b.example"]
    conclude(engine, parcels[0], 410, at=datetime.now(UTC) - timedelta(days=9))
    with UnitOfWork(engine) as uow:
        found = uow.webhooks.get("callbacks")
        assert (found.id, found.status, found.failing_since) == (shared, "enabled", None)


def test_two_projects_callbacks_have_secrets_of_their_own(engine) -> None:
    with UnitOfWork(engine) as uow:
        uow.webhooks.ensure_callbacks(sealed_secret="mine")
    with UnitOfWork(engine, project="elsewhere") as uow:
        assert uow.webhooks.ensure_callbacks(sealed_secret="theirs").secret == "theirs"


# -- old ones are forgotten ---------------------------------------------------------------------------------------


def test_the_log_is_kept_for_its_time(engine, endpoint) -> None:
    old, new, pending = (ping(engine, endpoint) for _ in range(3))
    for _ in range(2):
        conclude(engine, take(engine), 204)
    now = datetime.now(UTC)
    with UnitOfWork(engine, project=EVERY) as uow:
        ended = [row.id for row in uow.session.scalars(select(DeliveryRow).where(DeliveryRow.status == "succeeded"))]
        uow.session.execute(
            update(DeliveryRow).where(DeliveryRow.id == ended[0]).values(finished_at=now - timedelta(days=31))
        )
        assert uow.deliveries.forget(before=now - timedelta(days=30)) == 1
    left = {row.id for row in all_deliveries(engine)}
    assert left == {old, new, pending} - {ended[0]}


def test_an_endpoint_goes_with_its_log(engine, endpoint) -> None:
    ping(engine, endpoint)
    conclude(engine, take(engine), 500)
    with UnitOfWork(engine) as uow:
        uow.webhooks.delete(uow.webhooks.get(endpoint))
    with engine.connect() as connection:
        for table in (EndpointRow, DeliveryRow, AttemptRow):
            assert connection.scalar(select(func.count()).select_from(table)) == 0


def test_a_change_of_address_reaches_what_waits(engine, endpoint) -> None:
    ping(engine, endpoint)
    with UnitOfWork(engine) as uow:
        uow.webhooks.change(uow.webhooks.get(endpoint), url="https://new.example")
    assert take(engine).url == "https://new.example"


def test_a_verdict_is_one_of_three() -> None:
    assert {judge(status) for status in (200, 299, 300, 400, 410, 500, None)} == set(Verdict)


def test_an_endpoint_is_deleted_while_its_deliveries_are_being_concluded(engine) -> None:
    """Both lock the endpoint first: neither waits for the other in a circle."""
    for _ in range(10):
        endpoint = make_endpoint(engine)
        for _ in range(4):
            ping(engine, endpoint)
        parcels = [take(engine) for _ in range(4)]

        def delete(endpoint: str = endpoint) -> None:
            with UnitOfWork(engine) as uow:
                uow.webhooks.delete(uow.webhooks.get(endpoint))

        with ThreadPoolExecutor(5) as threads:
            running = [threads.submit(conclude, engine, parcel, 500) for parcel in parcels]
            running.append(threads.submit(delete))
            for each in running:
                each.result()
