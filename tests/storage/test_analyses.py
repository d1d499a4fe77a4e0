"""The rules of accepting, claiming and finishing, on both databases and from several threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, update

from gramian.analyses import EmbeddingSpec, PathSource, Status, dedupe_key, new_id
from gramian.errors import IdempotencyKeyReused, InvalidCursor, InvalidParameter, LeaseLost, NotFound
from gramian.storage.analyses import Outcome, ended_among
from gramian.storage.idempotency import FirstAnswer
from gramian.storage.tables import AnalysisRow, IdempotencyRow
from gramian.storage.unit_of_work import UnitOfWork

LEASE = 30.0


def question(name: str = "a", **values: object) -> AnalysisRow:
    spec = EmbeddingSpec(source=PathSource(type="path", path=name))
    given = {
        "id": new_id("an"),
        "kind": "embedding",
        "status": Status.QUEUED,
        "spec": spec.model_dump(mode="json"),
        "identity": {},
        "dedupe_key": dedupe_key(spec, name),
        "created_at": datetime.now(UTC),
        "method_version": "1",
        "fence": 0,
        "deliveries": 0,
    }
    return AnalysisRow(**(given | values))


@pytest.fixture
def accept(engine: Engine) -> Callable[..., str]:
    def accept(name: str = "a", labels: dict[str, str] | None = None, **values: object) -> str:
        with UnitOfWork(engine) as uow:
            return uow.analyses.accept(question(name, **values), labels or {})[0].id

    return accept


def claim(engine: Engine, id: str) -> int | None:
    with UnitOfWork(engine) as uow:
        found = uow.analyses.claim(id, lease_seconds=LEASE)
    return found.fence if found else None


def expire_lease(engine: Engine, id: str) -> None:
    with UnitOfWork(engine) as uow:
        uow.session.execute(update(AnalysisRow).where(AnalysisRow.id == id).values(lease_until=1.0))


def outcome() -> Outcome:
    return Outcome(
        matrices=[],
        digest="sha256:0",
        tying={"flag": None, "finding": "no_head", "reason": "none"},
        warnings=[],
        device="cpu",
        torch_version="2",
        seconds={},
        bytes_fetched=0,
    )


def test_ten_callers_with_one_question_get_one_row(engine: Engine) -> None:
    def ask(_: int) -> tuple[str, bool]:
        with UnitOfWork(engine) as uow:
            row, is_new = uow.analyses.accept(question(), {})
            return row.id, is_new

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(ask, range(10)))
    assert len({id for id, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1


def test_a_failed_analysis_does_not_stand_in_the_way_of_asking_again(engine: Engine, accept) -> None:
    first = accept()
    fence = claim(engine, first)
    with UnitOfWork(engine) as uow:
        uow.analyses.fail(first, fence, {"code": "x"})
    assert accept() != first


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
    current = claim(engine, id)
    assert (stale, current) == (1, 2)
    with pytest.raises(LeaseLost), UnitOfWork(engine) as uow:
        uow.analyses.succeed(id, stale, outcome(), gramian_version="0")
    with UnitOfWork(engine) as uow:
        assert not uow.analyses.renew(id, stale, lease_seconds=LEASE)
        assert not uow.analyses.report(id, stale, stage="gram", fraction=0.5, message="")
        assert uow.analyses.renew(id, current, lease_seconds=LEASE)
        uow.analyses.succeed(id, current, outcome(), gramian_version="0")
    with UnitOfWork(engine) as uow:
        row = uow.analyses.get(id)
        assert (row.status, row.fence, row.deliveries) == ("succeeded", 2, 2)
    assert ended_among(engine, [id, "an_other"]) == {id}
    assert claim(engine, id) is None


def test_the_reconcile_list_holds_what_waits_unseen_and_what_was_orphaned(engine: Engine, accept) -> None:
    waiting, seen, running, orphaned, done = (accept(name) for name in "abcde")
    with UnitOfWork(engine) as uow:
        uow.analyses.mark_pushed([seen])
    for id in (running, orphaned, done):
        claim(engine, id)
    expire_lease(engine, orphaned)
    with UnitOfWork(engine) as uow:
        uow.analyses.succeed(done, 1, outcome(), gramian_version="0")
    with UnitOfWork(engine) as uow:
        assert [row.id for row in uow.analyses.unattended(seconds=60)] == [waiting, orphaned]
        assert not uow.analyses.bury(running, 1, {"code": "worker_died"})
        assert uow.analyses.bury(orphaned, 1, {"code": "worker_died"})


def test_a_rolled_back_unit_leaves_nothing_and_calls_nobody(engine: Engine) -> None:
    called = []
    row = question()

    def unit() -> None:
        with UnitOfWork(engine) as uow:
            uow.analyses.accept(row, {})
            uow.after_commit(lambda: called.append(1))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        unit()
    with pytest.raises(NotFound), UnitOfWork(engine) as uow:
        uow.analyses.get(row.id)
    assert not called


def test_pages_cover_every_row_once_in_order_though_rows_are_added_meanwhile(engine: Engine, accept) -> None:
    ids = [accept(str(number)) for number in range(7)]
    found: list[str] = []
    cursor = None
    while True:
        with UnitOfWork(engine, writes=False) as uow:
            page = search(uow, sort="-created_at", cursor=cursor, limit=3)
        found += [row.id for row in page.items]
        accept(f"later {len(found)}")
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ids[::-1]


def test_rows_without_a_value_come_last_in_either_direction(engine: Engine, accept) -> None:
    unfinished = {accept("a"), accept("b")}
    finished = [accept(name) for name in "cd"]
    for id in finished:
        claim(engine, id)
        with UnitOfWork(engine) as uow:
            uow.analyses.succeed(id, 1, outcome(), gramian_version="0")
    for sort, ordered in (("finished_at", finished), ("-finished_at", finished[::-1])):
        found: list[str] = []
        cursor = None
        for _ in range(4):
            with UnitOfWork(engine, writes=False) as uow:
                page = search(uow, sort=sort, cursor=cursor, limit=1)
            found += [row.id for row in page.items]
            cursor = page.next_cursor
        assert cursor is None
        assert found[:2] == ordered
        assert set(found[2:]) == unfinished


def test_labels_narrow_the_list(engine: Engine, accept) -> None:
    both = accept("a", labels={"team": "interp", "run": "1"})
    accept("b", labels={"team": "interp"})
    with UnitOfWork(engine, writes=False) as uow:
        page = search(uow, labels=[("team", "interp"), ("run", None)])
    assert [row.id for row in page.items] == [both]


def test_a_second_caller_adds_labels_and_changes_none(engine: Engine, accept) -> None:
    assert accept("a", labels={"team": "interp"}) == accept("a", labels={"team": "other", "run": "2"})
    with UnitOfWork(engine, writes=False) as uow:
        (row,) = search(uow).items
    assert {label.name: label.value for label in row.labels} == {"team": "interp", "run": "2"}


@pytest.mark.parametrize("cursor", ["?", "e30", "WyJpZCJd", "bnVsbA", "WyItY3JlYXRlZF9hdCIsICJub3QgYSBkYXRlIiwgIngiXQ"])
def test_a_cursor_that_is_not_ours_is_refused(engine: Engine, cursor: str) -> None:
    with pytest.raises(InvalidCursor), UnitOfWork(engine, writes=False) as uow:
        search(uow, cursor=cursor)


def test_an_unknown_sort_names_the_known_ones(engine: Engine) -> None:
    with pytest.raises(InvalidParameter, match="cannot sort by 'secret'") as caught, UnitOfWork(engine) as uow:
        search(uow, sort="secret")
    assert "created_at" in str(caught.value.hint)


def search(uow: UnitOfWork, **values: object):
    given = {"kind": None, "status": None, "model_id": None, "labels": [], "sort": "-created_at", "cursor": None}
    return uow.analyses.search(**(given | {"limit": 50} | values))


def test_a_postponed_analysis_waits_for_its_time(engine: Engine, accept) -> None:
    id = accept()
    fence = claim(engine, id)
    with UnitOfWork(engine) as uow:
        uow.analyses.postpone(id, fence, seconds=3600, error={"detail": "the Hub is away"})
    assert claim(engine, id) is None
    with UnitOfWork(engine) as uow:
        assert uow.analyses.unattended(seconds=0) == []
        assert (uow.analyses.get(id).status, uow.analyses.get(id).failures) == ("queued", 1)
        uow.session.execute(update(AnalysisRow).values(due_at=1.0))
    with UnitOfWork(engine) as uow:
        assert [row.id for row in uow.analyses.unattended(seconds=60)] == [id]
    assert claim(engine, id) == 2


def test_the_last_callers_cancel_counts_and_the_runner_is_refused_afterwards(engine: Engine, accept) -> None:
    id = accept()
    assert accept() == id
    fence = claim(engine, id)
    with UnitOfWork(engine) as uow:
        assert uow.analyses.cancel(id)[0].status == "running"
        assert uow.analyses.owns(id, fence)
    with UnitOfWork(engine) as uow:
        assert uow.analyses.cancel(id)[0].status == "cancelled"
    with UnitOfWork(engine) as uow:
        assert not uow.analyses.owns(id, fence)
    with pytest.raises(LeaseLost), UnitOfWork(engine) as uow:
        uow.analyses.succeed(id, fence, outcome(), gramian_version="0")
    assert accept() != id


def test_ten_requests_with_one_key_have_one_first_answer(engine: Engine) -> None:
    def ask(number: int) -> str:
        with UnitOfWork(engine) as uow:
            if not uow.idempotency.reserve("key", "body"):
                first = uow.idempotency.find("key", "body")
                assert first is not None
                return first.body
            uow.idempotency.answer("key", FirstAnswer("an_1", 202, f"answer {number}"))
            return f"answer {number}"

    with ThreadPoolExecutor(10) as pool:
        assert len(set(pool.map(ask, range(10)))) == 1
    with pytest.raises(IdempotencyKeyReused), UnitOfWork(engine) as uow:
        uow.idempotency.find("key", "another body")
    with UnitOfWork(engine) as uow:
        uow.session.execute(update(IdempotencyRow).values(created_at=1.0))
        assert uow.idempotency.find("key", "another body") is None
        assert uow.idempotency.reserve("key", "another body")
