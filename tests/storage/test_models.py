"""The registry: one row a model, its latest numbers, sorted and filtered in SQL."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from gramian.analyses import Status, new_id
from gramian.errors import NotFound
from gramian.specs import EmbeddingSpec, HubSource
from gramian.storage.matrices import MatrixFilter
from gramian.storage.models import ModelFilter
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import matrix

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def models(engine: Engine) -> Engine:
    """Four models; example/a was analysed twice, example/failed only ever failed."""
    planted = [
        ("example/a", "aaaa1111", 64, 0.08, 5.0, Status.SUCCEEDED),
        ("example/b", "bbbb1111", 128, 0.30, None, Status.SUCCEEDED),
        ("other/c_1", "cccc1111", 256, 0.05, 9.0, Status.SUCCEEDED),
        ("example/a", "aaaa2222", 64, 0.09, 4.0, Status.SUCCEEDED),
        ("example/failed", "dddd1111", 64, 0.09, 4.0, Status.FAILED),
        ("other/cx1", "eeee1111", 512, 0.25, None, Status.SUCCEEDED),
    ]
    with UnitOfWork(engine) as uow:
        for hours, (model_id, commit, dim, epsilon, capacity, status) in enumerate(planted):
            spec = EmbeddingSpec(source=HubSource(type="hub", model_id=model_id))
            row = AnalysisRow(
                id=new_id("an"),
                kind="embedding",
                status=status,
                spec=spec.model_dump(mode="json"),
                identity={},
                dedupe_key=commit,
                model_id=model_id,
                revision="main",
                commit=commit,
                created_at=START,
                finished_at=START + timedelta(hours=hours),
                method_version="1",
            )
            uow.session.add(row)
            uow.session.flush()
            if status == Status.SUCCEEDED:
                uow.session.add(matrix(row.id, dim=dim, epsilon=epsilon, capacity=capacity))
    return engine


def names(engine: Engine, *, sort: str = "model_id", limit: int = 50, **wanted: object) -> list[str]:
    """Model ids over all pages."""
    found: list[str] = []
    cursor = None
    while True:
        with UnitOfWork(engine, writes=False) as uow:
            page = uow.models.search(ModelFilter(**wanted), sort=sort, cursor=cursor, limit=limit)
        found += [analysis.model_id for analysis, _ in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_models_are_sorted_by_their_latest_numbers_with_the_indeterminate_last(models: Engine, limit: int) -> None:
    assert names(models, limit=limit) == ["example/a", "example/b", "other/c_1", "other/cx1"]
    assert names(models, sort="-capacity", limit=limit) == ["other/c_1", "example/a", "example/b", "other/cx1"]
    assert names(models, sort="capacity", limit=limit) == ["example/a", "other/c_1", "example/b", "other/cx1"]
    assert names(models, sort="-epsilon", limit=limit) == ["example/b", "other/cx1", "example/a", "other/c_1"]
    assert names(models, sort="-analysed_at", limit=limit) == ["other/cx1", "example/a", "other/c_1", "example/b"]


def test_filters_narrow_and_wildcards_are_plain_characters(models: Engine) -> None:
    assert names(models, epsilon_class="low_epsilon") == ["example/a", "other/c_1"]
    assert names(models, min_dim=128, max_dim=256) == ["example/b", "other/c_1"]
    assert names(models, text="EXAMPLE") == ["example/a", "example/b"]
    assert names(models, text="c_1") == ["other/c_1"]
    assert names(models, text="%") == []


def test_the_latest_analysis_is_found_by_branch_and_by_the_beginning_of_a_commit(models: Engine) -> None:
    with UnitOfWork(models, writes=False) as uow:
        assert uow.models.latest("example/a", None).commit == "aaaa2222"
        assert uow.models.latest("example/a", "main").commit == "aaaa2222"
        assert uow.models.latest("example/a", "aaaa1").commit == "aaaa1111"
        for model_id, revision in (("example/failed", None), ("example/a", "%"), ("nobody/none", None)):
            with pytest.raises(NotFound):
                uow.models.latest(model_id, revision)


def test_matrices_of_every_analysis_are_found_newest_first(models: Engine) -> None:
    def found(limit: int = 50, **wanted: object) -> list[str]:
        model_id = wanted.pop("model_id", None)
        with UnitOfWork(models, writes=False) as uow:
            rows = uow.matrices.find(MatrixFilter(ModelFilter(**wanted), model_id=model_id), limit=limit)
            assert set(rows) == set(uow.matrices.of([row.id for row in rows]))
        return [row.commit for row in rows]

    assert found() == ["eeee1111", "aaaa2222", "cccc1111", "bbbb1111", "aaaa1111"]
    assert found(limit=2) == ["eeee1111", "aaaa2222"]
    assert found(epsilon_class="low_epsilon", max_dim=64) == ["aaaa2222", "aaaa1111"]
    assert found(model_id="example/a") == ["aaaa2222", "aaaa1111"]
    assert found(text="c_1") == ["cccc1111"]
