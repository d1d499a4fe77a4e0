"""The rules of accepting, finding and cancelling, on both databases and from several threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, update

from gramian.errors import IdempotencyKeyReused, InvalidCursor, InvalidParameter, LeaseLost, NotFound
from gramian.storage.idempotency import FirstAnswer
from gramian.storage.tables import IdempotencyRow
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import ERROR, claim, outcome, question


def test_ten_callers_with_one_question_get_one_row(engine: Engine) -> None:
    def ask(_: int) -> tuple[str, bool]:
        with UnitOfWork(engine) as uow:
            accepted = uow.analyses.accept(question(), {})
            return accepted.row.id, accepted.is_new

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(ask, range(10)))
    assert len({id for id, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1


def test_a_failed_analysis_does_not_stand_in_the_way_of_asking_again(engine: Engine, accept) -> None:
    first = accept()
    fence = claim(engine, first)
    with UnitOfWork(engine) as uow:
        uow.jobs.fail(first, fence, ERROR)
    assert accept() != first


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
            uow.jobs.succeed(id, 1, outcome(), gramian_version="0")
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


def test_the_last_callers_cancel_counts_and_the_runner_is_refused_afterwards(engine: Engine, accept) -> None:
    id = accept()
    assert accept() == id
    fence = claim(engine, id)
    with UnitOfWork(engine) as uow:
        assert uow.analyses.cancel(id)[0].status == "running"
        assert uow.jobs.owns(id, fence)
    with UnitOfWork(engine) as uow:
        assert uow.analyses.cancel(id)[0].status == "cancelled"
    with UnitOfWork(engine) as uow:
        assert not uow.jobs.owns(id, fence)
    with pytest.raises(LeaseLost), UnitOfWork(engine) as uow:
        uow.jobs.succeed(id, fence, outcome(), gramian_version="0")
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


def test_asking_interactively_for_what_waits_in_batch_moves_it_forward(engine: Engine, accept) -> None:
    id = accept(priority="batch")
    with UnitOfWork(engine) as uow:
        again = uow.analyses.accept(question(priority="batch"), {})
        assert (again.row.id, again.needs_message) == (id, False)
        urgent = uow.analyses.accept(question(priority="interactive"), {})
        assert (urgent.row.id, urgent.needs_message, urgent.row.priority) == (id, True, "interactive")
        assert urgent.row.callers == 3
