"""A unit of work that is limited to a project finds, changes and deletes nothing of another."""

import pytest
from sqlalchemy import Engine, delete, exists, func, select, text, update
from sqlalchemy.orm import aliased

from gramian.errors import Conflict, NotFound
from gramian.keys import Scope
from gramian.projects import DEFAULT, EVERY
from gramian.storage.idempotency import FirstAnswer
from gramian.storage.matrices import MatrixFilter
from gramian.storage.models import ModelFilter
from gramian.storage.tables import AnalysisRow, Base, LabelRow, MatrixRow, ProjectOwned
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import LEASE, claim, matrix, outcome, question

PAGE = {"sort": "id", "cursor": None, "limit": 50}
ALL = {"kind": None, "status": None, "model_id": None, "labels": []} | PAGE


@pytest.fixture
def other(engine: Engine) -> str:
    with UnitOfWork(engine) as uow:
        return uow.projects.create("other").id


@pytest.fixture
def succeeded(engine: Engine, other: str) -> str:
    """An analysed model of the other project."""
    with UnitOfWork(engine, project=other) as uow:
        id = uow.analyses.accept(question(model_id="org/a", revision="main", commit="c"), {"team": "x"}).row.id
    fence = claim(engine, id)
    with UnitOfWork(engine, project=EVERY) as uow:
        uow.jobs.succeed(id, fence, outcome(matrix(id)), gramian_version="1")
    return id


def test_the_same_question_is_answered_once_in_each_project(engine: Engine, other: str) -> None:
    ids = []
    for project in (DEFAULT, other, DEFAULT, other):
        with UnitOfWork(engine, project=project) as uow:
            ids.append(uow.analyses.accept(question(), {}).row.id)
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]


def test_an_idempotency_key_means_something_else_in_each_project(engine: Engine, other: str) -> None:
    for project in (DEFAULT, other):
        with UnitOfWork(engine, project=project) as uow:
            assert uow.idempotency.reserve("k", "body of " + project)
            uow.idempotency.answer("k", FirstAnswer("an_1", 202, project))
    for project in (DEFAULT, other):
        with UnitOfWork(engine, project=project) as uow:
            assert uow.idempotency.find("k", "body of " + project) == FirstAnswer("an_1", 202, project)


def test_nothing_of_another_project_is_found_by_any_way(engine: Engine, other: str, succeeded: str) -> None:
    def seen(project: str | None) -> list[bool]:
        with UnitOfWork(engine, project=project, writes=False) as uow:
            return [
                bool(uow.analyses.search(**ALL).items),
                bool(uow.analyses.search(**(ALL | {"labels": [("team", "x")]})).items),
                bool(uow.models.search(ModelFilter(), **(PAGE | {"sort": "-epsilon"})).items),
                bool(uow.models.ids()),
                bool(uow.matrices.find(MatrixFilter(ModelFilter()), limit=9)),
                bool(uow.matrices.of([succeeded])),
            ]

    assert seen(other) == seen(EVERY) == [True] * 6
    assert seen(DEFAULT) == [False] * 6
    with UnitOfWork(engine) as uow:
        for look in (
            lambda: uow.analyses.get(succeeded),
            lambda: uow.analyses.cancel(succeeded),
            lambda: uow.models.latest("org/a", None),
        ):
            with pytest.raises(NotFound):
                look()


def test_the_limit_is_on_statements_of_every_shape(engine: Engine, other: str, succeeded: str) -> None:
    alias = aliased(AnalysisRow)
    queries = [
        select(AnalysisRow),
        select(AnalysisRow.id),
        select(alias.id),
        select(func.count()).select_from(AnalysisRow).having(func.count() > 0),
        select(MatrixRow.dim).join(AnalysisRow, AnalysisRow.id == MatrixRow.analysis_id),
        select(MatrixRow.dim).where(MatrixRow.analysis_id.in_(select(AnalysisRow.id))),
        select(LabelRow).where(exists().where(AnalysisRow.id == LabelRow.analysis_id)),
        select(select(AnalysisRow.id).subquery().c.id),
        update(AnalysisRow).values(message="changed").returning(AnalysisRow.id),
        delete(AnalysisRow).returning(AnalysisRow.id),
    ]
    for query in queries:
        with UnitOfWork(engine) as uow:
            assert uow.session.execute(query).all() == [], query
        with UnitOfWork(engine, project=other) as uow:
            assert len(uow.session.execute(query).all()) == 1, query
            uow.session.rollback()


def test_workers_see_the_jobs_of_all_projects(engine: Engine, other: str) -> None:
    ids = set()
    for project in (DEFAULT, other):
        with UnitOfWork(engine, project=project) as uow:
            ids.add(uow.analyses.accept(question(), {}).row.id)
    with UnitOfWork(engine, project=EVERY) as uow:
        assert {row.id for row in uow.jobs.unattended(lease_seconds=LEASE)} == ids


def test_rows_that_are_added_belong_to_the_project_of_their_unit_of_work(engine: Engine, other: str) -> None:
    for project in (DEFAULT, other):
        with UnitOfWork(engine, project=project) as uow:
            row, secret = uow.keys.create("ci", Scope.READ)
            assert row.project_id == project
        with UnitOfWork(engine, project=EVERY) as uow:
            assert uow.keys.find(secret).project_id == project
    with UnitOfWork(engine) as uow:
        assert len(uow.keys.list()) == 1


def test_names_of_projects_are_unique(engine: Engine, other: str) -> None:
    with UnitOfWork(engine) as uow:
        assert [row.name for row in uow.projects.list()] == ["default", "other"]
        assert uow.projects.named("other").id == other
        for taken in ("other", "default"):
            with pytest.raises(Conflict):
                uow.projects.create(taken)
        with pytest.raises(NotFound):
            uow.projects.named("third")


def test_every_table_with_a_project_is_limited() -> None:
    for mapper in Base.registry.mappers:
        assert ("project_id" in mapper.columns) == issubclass(mapper.class_, ProjectOwned), mapper


def test_what_was_there_before_projects_belongs_to_the_default_one(empty_engine: Engine) -> None:
    from gramian.storage import schema

    schema.upgrade(empty_engine, "0009")
    with empty_engine.begin() as connection:
        connection.execute(text("INSERT INTO idempotency_keys (key, fingerprint, created_at) VALUES ('k', 'f', 1e12)"))
        connection.execute(
            text(
                "INSERT INTO analyses (id, kind, status, spec, identity, dedupe_key, created_at, fence, deliveries, "
                "failures, callers, priority, events, method_version) VALUES ('an_old', 'embedding', 'queued', '{}', "
                "'{}', 'd', '2026-01-01', 0, 0, 0, 1, 'batch', 1, '1')"
            )
        )
    schema.upgrade(empty_engine)
    with UnitOfWork(empty_engine) as uow:
        assert uow.analyses.get("an_old").project_id == DEFAULT
        assert not uow.idempotency.reserve("k", "f")
    schema.downgrade(empty_engine, "0009")
    schema.upgrade(empty_engine)
    with UnitOfWork(empty_engine) as uow:
        assert not uow.idempotency.reserve("k", "f")
