"""A watch compares each revision with the one before, in the order in which they came, and tells of changes once."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, select

from gramian.projects import EVERY
from gramian.pushes import Push
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from gramian.storage.webhook_tables import DeliveryRow
from gramian.watches import covers
from tests.storage.questions import ERROR, claim, matrix, outcome, question


@pytest.fixture
def watch(engine: Engine) -> str:
    with UnitOfWork(engine) as uow:
        uow.webhooks.create(url="https://r.example/", events=["*"], description="", sealed_secret="x")
        return uow.watches.create(
            model_id="org/m", revision="main", kind="embedding", question={}, epsilon_shift=0.02, class_change=True
        ).id


def push(engine: Engine, watch: str, number: int, *, previous: str | None = None, **values: object) -> str:
    """A revision, and its analysis."""
    commit = f"{number:040x}"
    with UnitOfWork(engine) as uow:
        revision = uow.watches.enrol(uow.watches.get(watch), Push("org/m", "main", commit, previous))
        row = question(f"{number}", model_id="org/m", revision="main", commit=commit, **values)
        revision.analysis_id = uow.analyses.accept(row, {}).row.id
        return revision.analysis_id


def finish(engine: Engine, id: str, epsilon: float) -> None:
    fence = claim(engine, id)
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id, epsilon=epsilon)), gramian_version="1")


def fail(engine: Engine, id: str) -> None:
    fence = claim(engine, id)
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.fail(id, fence, ERROR)


def told(engine: Engine) -> list[tuple[str, str, str]]:
    """Type, analysis and the one before, of each change that went out."""
    with UnitOfWork(engine) as uow:
        rows = uow.session.scalars(
            select(DeliveryRow).where(DeliveryRow.type.startswith("model.")).order_by(DeliveryRow.id)
        )
        found = [(row.type, json.loads(row.payload)["data"]) for row in rows]
    return [(type, data["analysis_id"], data["previous_analysis_id"]) for type, data in found]


def test_a_shift_beyond_the_threshold_is_told_and_a_smaller_one_is_not(engine, watch) -> None:
    ids = [push(engine, watch, number) for number in range(4)]
    for id, epsilon in zip(ids, (0.05, 0.06, 0.09, 0.06), strict=True):
        finish(engine, id, epsilon)
    assert told(engine) == [
        ("model.epsilon_shifted", ids[2], ids[1]),
        ("model.epsilon_shifted", ids[3], ids[2]),
    ]


def test_another_class_is_told_beside_the_shift(engine, watch) -> None:
    ids = [push(engine, watch, number) for number in range(2)]
    finish(engine, ids[0], 0.095)
    finish(engine, ids[1], 0.3)
    assert [type for type, *_ in told(engine)] == ["model.epsilon_shifted", "model.class_changed"]
    with UnitOfWork(engine) as uow:
        row = uow.session.scalars(select(DeliveryRow).where(DeliveryRow.type == "model.class_changed")).one()
    (change,) = json.loads(row.payload)["data"]["matrices"]
    assert (change["previous_class"], change["class"]) == ("low_epsilon", "high_epsilon")
    assert change["shift"] == pytest.approx(0.205)


def test_a_watch_that_wants_neither_tells_nothing(engine, watch) -> None:
    with UnitOfWork(engine) as uow:
        uow.watches.change(uow.watches.get(watch), {"epsilon_shift": None, "class_change": False})
    for number, epsilon in enumerate((0.05, 0.4)):
        finish(engine, push(engine, watch, number), epsilon)
    assert told(engine) == []


def test_revisions_that_end_out_of_order_are_compared_in_the_order_in_which_they_came(engine, watch) -> None:
    first, second, third = (push(engine, watch, number) for number in range(3))
    finish(engine, third, 0.2)
    finish(engine, second, 0.1)
    assert told(engine) == []
    finish(engine, first, 0.05)
    shifts = [each for each in told(engine) if each[0] == "model.epsilon_shifted"]
    assert shifts == [("model.epsilon_shifted", second, first), ("model.epsilon_shifted", third, second)]


def test_a_revision_that_failed_is_left_out_of_the_row(engine, watch) -> None:
    first, second, third = (push(engine, watch, number) for number in range(3))
    finish(engine, first, 0.05)
    finish(engine, third, 0.09)
    assert told(engine) == []
    fail(engine, second)
    assert told(engine) == [("model.epsilon_shifted", third, first)]


def test_the_first_revision_is_compared_with_the_commit_before_if_that_was_analysed(engine, watch) -> None:
    with UnitOfWork(engine) as uow:
        asked = {"model_id": "org/m", "revision": "main", "created_at": datetime.now(UTC) - timedelta(days=1)}
        known = uow.analyses.accept(question("known", commit="f" * 40, **asked), {}).row.id
        other = uow.analyses.accept(question("other", commit="e" * 40, **asked), {}).row.id
    finish(engine, known, 0.05)
    finish(engine, other, 0.5)
    finish(engine, first := push(engine, watch, 1, previous="f" * 40), 0.09)
    assert told(engine) == [("model.epsilon_shifted", first, known)]


def test_numbers_that_cannot_be_compared_are_not(engine, watch) -> None:
    finish(engine, push(engine, watch, 0), 0.05)
    finish(engine, push(engine, watch, 1, method_version="2"), 0.5)
    assert told(engine) == []


def test_two_watches_tell_for_themselves_and_projects_apart(engine, watch) -> None:
    with UnitOfWork(engine) as uow:
        foreign = uow.projects.create("elsewhere").id
    with UnitOfWork(engine, project=foreign) as uow:
        uow.webhooks.create(url="https://other.example/", events=["*"], description="", sealed_secret="x")
    finish(engine, push(engine, watch, 0), 0.05)
    finish(engine, push(engine, watch, 1), 0.09)
    assert len(told(engine)) == 1
    with UnitOfWork(engine, project=foreign, writes=False) as uow:
        assert uow.session.scalars(select(DeliveryRow)).all() == []


def test_an_analysis_that_is_deleted_leaves_its_revision_known(engine, watch) -> None:
    finish(engine, id := push(engine, watch, 0), 0.05)
    with UnitOfWork(engine) as uow:
        uow.session.delete(uow.session.get(AnalysisRow, id))
    with UnitOfWork(engine) as uow:
        assert uow.watches.enrol(uow.watches.get(watch), Push("org/m", "main", f"{0:040x}")) is None


@pytest.mark.parametrize(
    ("pattern", "model_id", "covered"),
    [
        ("org/m", "org/m", True),
        ("org/m", "org/M", False),
        ("org/*", "org/a.b-c", True),
        ("org/*", "organ/m", False),
        ("*", "org/m", True),
        ("org/run-*-final", "org/run-7-final", True),
        ("org/run-*-final", "org/run-7-final-2", False),
        ("org/m.1", "org/mx1", False),
        ("*/*", "bare", False),
    ],
)
def test_a_pattern_covers_what_it_says(engine, pattern, model_id, covered) -> None:
    assert covers(pattern, model_id) == covered
    with UnitOfWork(engine) as uow:
        uow.watches.create(
            model_id=pattern, revision="main", kind="embedding", question={}, epsilon_shift=None, class_change=True
        )
        assert bool(uow.watches.covering(model_id, "main")) == covered
        assert uow.watches.covering(model_id, "dev") == []
