"""The rules of claiming, renewing and finishing, on both databases and from several threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import InternalError

from gramian.analyses import Status
from gramian.errors import LeaseLost
from gramian.storage.events import Standing, events_after, standings
from gramian.storage.jobs import Step
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import ERROR, LEASE, SHORT, claim, expire_lease, outcome

STEP = Step("gram", 0.5, "half way", done=5, total=10, unit="rows", seconds_left=1.0)


def test_one_of_ten_claims_wins(engine: Engine, accept) -> None:
    id = accept()
    with ThreadPoolExecutor(10) as pool:
        fences = list(pool.map(lambda _: claim(engine, id), range(10)))
    assert sorted(fence for fence in fences if fence is not None) == [1]


def test_an_expired_lease_can_be_claimed_and_the_late_writer_is_refused(engine: Engine, accept) -> None:
    id = accept()
    stale = claim(engine, id)
    assert claim(engine, id) is None
    expire_lease(engine, id)
    current = claim(engine, id, lease_seconds=SHORT)
    assert (stale, current) == (1, 2)
    with pytest.raises(LeaseLost), UnitOfWork(engine) as uow:
        uow.jobs.succeed(id, stale, outcome(), gramian_version="0")
    with UnitOfWork(engine) as uow:
        assert not uow.jobs.renew(id, stale, lease_seconds=LEASE)
        assert not uow.jobs.report(id, stale, STEP)
        assert uow.jobs.renew(id, current, lease_seconds=LEASE)
        uow.jobs.succeed(id, current, outcome(), gramian_version="0")
    with UnitOfWork(engine) as uow:
        row = uow.analyses.get(id)
        assert (row.status, row.fence, row.deliveries) == ("succeeded", 2, 2)
    assert standings(engine, [id, "an_other"]) == {id: Standing(4, Status.SUCCEEDED)}
    assert claim(engine, id) is None


def test_the_reconcile_list_holds_what_waits_unseen_and_what_was_orphaned(engine: Engine, accept) -> None:
    waiting, seen, running, orphaned, done = (accept(name) for name in "abcde")
    with UnitOfWork(engine) as uow:
        uow.jobs.mark_pushed([waiting, seen])
        uow.session.execute(update(AnalysisRow).where(AnalysisRow.id == waiting).values(pushed_at=1.0))
        uow.session.execute(
            update(AnalysisRow).where(AnalysisRow.id == seen).values(pushed_at=AnalysisRow.pushed_at + 60)
        )
    for id in (running, orphaned, done):
        claim(engine, id)
    expire_lease(engine, orphaned)
    with UnitOfWork(engine) as uow:
        uow.jobs.succeed(done, 1, outcome(), gramian_version="0")
    with UnitOfWork(engine) as uow:
        assert [row.id for row in uow.jobs.unattended(lease_seconds=SHORT)] == [orphaned, waiting]
        assert not uow.jobs.bury(running, 1, ERROR)
        assert uow.jobs.bury(orphaned, 1, ERROR)


def test_a_long_queue_keeps_nothing_from_the_reconcile_list(engine: Engine, accept) -> None:
    ids = [accept(name) for name in "abcd"]
    orphaned = ids.pop()
    claim(engine, orphaned)
    expire_lease(engine, orphaned)
    rounds = []
    for _ in range(3):
        with UnitOfWork(engine) as uow:
            found = [row.id for row in uow.jobs.unattended(lease_seconds=-60, limit=2)]  # every message is too old
            uow.jobs.mark_pushed(found)
            uow.jobs.renew(orphaned, 1, lease_seconds=LEASE)
        rounds.append(found)
    assert rounds[0][0] == orphaned
    assert {rounds[0][1], *rounds[1]} == set(ids)
    assert rounds[2][0] == rounds[0][1]


def test_a_postponed_analysis_waits_for_its_time(engine: Engine, accept) -> None:
    id = accept()
    fence = claim(engine, id)
    with UnitOfWork(engine) as uow:
        uow.jobs.postpone(id, fence, seconds=3600, error=ERROR)
    assert claim(engine, id) is None
    with UnitOfWork(engine) as uow:
        assert uow.jobs.unattended(lease_seconds=SHORT) == []
        assert (uow.analyses.get(id).status, uow.analyses.get(id).failures) == ("queued", 1)
        uow.session.execute(update(AnalysisRow).values(due_at=1.0))
    with UnitOfWork(engine) as uow:
        assert [row.id for row in uow.jobs.unattended(lease_seconds=SHORT)] == [id]
    assert claim(engine, id) == 2


def test_every_change_is_an_event_and_they_are_numbered_without_gaps(engine: Engine, accept) -> None:
    id = accept()
    first = claim(engine, id)
    with UnitOfWork(engine) as uow:
        assert uow.jobs.report(id, first, STEP)
        uow.jobs.postpone(id, first, seconds=0, error=ERROR)
    second = claim(engine, id)
    with UnitOfWork(engine) as uow:
        uow.jobs.release(id, second, "its worker stopped")
    third = claim(engine, id)
    with UnitOfWork(engine) as uow:
        uow.jobs.succeed(id, third, outcome(), gramian_version="0")
        assert uow.analyses.get(id).deliveries == 2  # a release is not counted
    events = events_after(engine, id, 0)
    assert [event.number for event in events] == list(range(1, 9))
    assert [event.data.get("status", event.data.get("stage")) for event in events] == [
        *("queued", "running", "gram", "queued", "running", "queued", "running", "succeeded"),
    ]
    assert [event.data["attempt"] for event in events if event.type == "status"] == [0, 1, 1, 2, 2, 3, 3]
    assert events_after(engine, id, 7) == events[7:]
    assert standings(engine, [id]) == {id: Standing(8, Status.SUCCEEDED)}


def test_a_rolled_back_change_leaves_no_event(engine: Engine, accept) -> None:
    id = accept()
    fence = claim(engine, id)

    def fail_and_stop() -> None:
        with UnitOfWork(engine) as uow:
            uow.jobs.fail(id, fence, ERROR)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_and_stop()
    assert [event.data["status"] for event in events_after(engine, id, 0)] == ["queued", "running"]


def test_after_a_restart_of_the_database_owners_have_two_leases_of_time_to_renew(postgres, accept) -> None:
    from gramian.storage import schema
    from gramian.storage.engine import open_engine
    from tests.storage.questions import question

    engine = open_engine(postgres.create_database())
    schema.upgrade(engine)
    with UnitOfWork(engine) as uow:
        id = uow.analyses.accept(question(), {}).row.id
    claim(engine, id)
    expire_lease(engine, id)
    an_hour = 3600.0  # the server has started since
    with UnitOfWork(engine) as uow:
        assert uow.jobs.unattended(lease_seconds=an_hour) == []
    assert claim(engine, id, lease_seconds=an_hour) is None
    assert claim(engine, id, lease_seconds=SHORT) == 2
    engine.dispose()


def test_who_stops_in_the_middle_of_a_transaction_holds_its_job_for_seconds_only(postgres, monkeypatch) -> None:
    from gramian.storage import engine as engines
    from gramian.storage import schema
    from tests.storage.questions import question

    monkeypatch.setattr(engines, "IDLE_SECONDS", 1)
    engine = engines.open_engine(postgres.create_database())
    schema.upgrade(engine)
    with UnitOfWork(engine) as uow:
        id = uow.analyses.accept(question(), {}).row.id
    claim(engine, id)
    expire_lease(engine, id)
    fences = []

    def stop_between_two_statements() -> None:
        with UnitOfWork(engine) as uow:
            uow.jobs.renew(id, 1, lease_seconds=LEASE)
            fences.append(claim(engine, id, lease_seconds=SHORT))  # waits for the lock, and not for ever
            uow.jobs.renew(id, 1, lease_seconds=LEASE)

    with pytest.raises(InternalError):
        stop_between_two_statements()
    assert fences == [2]
    engine.dispose()
