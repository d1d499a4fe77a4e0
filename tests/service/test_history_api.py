"""A model over its revisions: one point a commit, by analyses that may be compared."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from service.app import create_app
from tests.storage.questions import claim, matrix, outcome, question

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'gramian.db'}")
    schema.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def http(engine: Engine, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(data_dir=tmp_path, redis_url="unix:///nowhere"))) as client:
        yield client


def analysed(engine: Engine, hour: int, commit: str, epsilon: float, *, exclude: tuple[str, ...] = (), **values) -> str:
    row = question(
        f"{hour}-{commit}",
        **({"model_id": "org/m", "revision": "main"} | values),
        commit=commit * 40,
        created_at=START + timedelta(hours=hour),
    )
    row.spec = row.spec | {"rows": {"exclude": list(exclude)} if exclude else None}
    with UnitOfWork(engine) as uow:
        id = uow.analyses.accept(row, {}).row.id
    fence = claim(engine, id)
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id, epsilon=epsilon)), gramian_version="1")
    return id


def look(http: TestClient, **parameters: object) -> dict:
    answer = http.get("/v1/models/org/m/history", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_commits_come_in_the_order_of_their_first_analysis_by_their_latest_numbers(http, engine) -> None:
    analysed(engine, 1, "a", 0.05)
    analysed(engine, 2, "b", 0.30)
    again = analysed(engine, 3, "a", 0.06)
    found = look(http)
    assert [(point["commit"][0], point["epsilon"], point["class_changed"]) for point in found["items"]] == [
        ("a", 0.06, False),
        ("b", 0.30, True),
    ]
    assert found["items"][0]["analysis_id"] == again
    assert found["items"][1]["shift"] == pytest.approx(0.24)
    assert (found["left_out"], found["truncated"], found["role"]) == (0, False, "input_embedding")


def test_analyses_that_may_not_be_compared_with_the_latest_are_left_out_and_counted(http, engine) -> None:
    analysed(engine, 1, "a", 0.05, exclude=("duplicates",))
    analysed(engine, 2, "b", 0.06, method_version="0")
    analysed(engine, 3, "c", 0.07)
    found = look(http)
    assert [point["commit"][0] for point in found["items"]] == ["c"]
    assert found["left_out"] == 2


def test_a_branch_alone_or_the_latest_alone(http, engine) -> None:
    analysed(engine, 1, "a", 0.05)
    analysed(engine, 2, "b", 0.06, revision="dev")
    assert [point["commit"][0] for point in look(http, revision="dev")["items"]] == ["b"]
    found = look(http, limit=1)
    assert ([point["commit"][0] for point in found["items"]], found["truncated"]) == (["b"], True)


def test_what_was_not_analysed_is_not_found_in_any_form(http, engine) -> None:
    analysed(engine, 1, "a", 0.05)
    for path in ("org/other/history", "org/other/history.csv", "org/other/history.svg", "org/m/history?revision=dev"):
        assert http.get(f"/v1/models/{path}").status_code == 404
    assert http.get("/v1/models/org/m/history?role=output_embedding").status_code == 404
    assert http.get("/v1/models/org/m/history?limit=0").status_code == 422


def test_a_picture_of_one_commit_and_of_equal_ones_can_be_drawn(http, engine) -> None:
    for hour, commit in enumerate("aab"):
        analysed(engine, hour, commit, 0.05)
        picture = http.get("/v1/models/org/m/history.svg")
        assert picture.status_code == 200
        assert "nan" not in picture.text
