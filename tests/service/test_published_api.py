"""The published models over HTTP: the table as printed, our capacity at its ε, our analyses beside it."""

import csv
import io
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from gramian.analyses import Status, new_id
from gramian.geometry.published import PUBLISHED_CAPACITIES
from gramian.settings import Settings
from gramian.specs import EmbeddingSpec, HubSource
from gramian.storage import schema
from gramian.storage.engine import open_engine
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from service.app import create_app
from service.published_models import name_words
from tests.storage.questions import matrix


@pytest.fixture
def settings(tmp_path):
    settings = Settings(data_dir=tmp_path, redis_url="unix:///nowhere")
    engine = open_engine(settings.sqlalchemy_url)
    schema.upgrade(engine)
    engine.dispose()
    return settings


@pytest.fixture
def http(settings):
    with TestClient(create_app(settings)) as client:
        yield client


def analysed(settings, model_id, *, dim, epsilon):
    spec = EmbeddingSpec(source=HubSource(type="hub", model_id=model_id))
    row = AnalysisRow(
        id=new_id("an"),
        kind="embedding",
        status=Status.SUCCEEDED,
        spec=spec.model_dump(mode="json"),
        identity={},
        dedupe_key=new_id("key"),
        model_id=model_id,
        revision="main",
        created_at=datetime.now(UTC),
        finished_at=datetime.now(UTC),
        method_version=spec.method_version,
    )
    engine = open_engine(settings.sqlalchemy_url)
    with UnitOfWork(engine) as uow:
        uow.session.add(row)
        uow.session.flush()
        uow.session.add(matrix(row.id, dim=dim, epsilon=epsilon, capacity=7.5))
    engine.dispose()
    return row.id


def test_all_45_rows_are_there_as_printed_and_ours_is_within_half_a_per_cent(http):
    answer = http.get("/v1/models/published").json()
    items = answer["items"]
    assert [(item["model"], item["dim"], item["epsilon"]) for item in items] == [
        (row.model, row.dim, row.epsilon) for row in PUBLISHED_CAPACITIES
    ]
    assert len(items) == 45
    assert "2606.02765" in answer["source"]
    for item in items:
        assert item["published"] is True
        assert item["analysed"] is None
        assert (item["capacity"]["status"] == "indeterminate") == (item["published_capacity"] is None)
        if item["published_capacity"]:
            assert item["capacity"]["directions"] == pytest.approx(item["published_capacity"], rel=0.005)
            assert item["capacity"]["position"]["place"] == "below_existing"  # of all 31: docs/theory.md
            bounds = item["capacity"]["bounds"]
            assert item["published_log10"] < bounds["exists_log10"] < bounds["upper_lines_log10"]


def test_our_own_number_stands_beside_the_same_model_and_no_other(http, settings):
    wrong_width = analysed(settings, "someone/Llama-2-13b", dim=64, epsilon=0.05)
    id = analysed(settings, "meta-llama/Llama-2-7b-hf", dim=4096, epsilon=0.0646)
    analysed(settings, "example/Llama-2-7b-chat", dim=4096, epsilon=0.05)
    items = {item["model"]: item for item in http.get("/v1/models/published").json()["items"]}
    own = items["Llama 2 7B"]["analysed"]
    assert (own["analysis_id"], own["model_id"], own["epsilon"]) == (id, "meta-llama/Llama-2-7b-hf", 0.0646)
    assert own["difference_epsilon"] == pytest.approx(0.0001)
    assert own["capacity_log10"] == 7.5
    assert [name for name, item in items.items() if item["analysed"]] == ["Llama 2 7B"]
    assert wrong_width not in str(items)
    newer = analysed(settings, "mirror/llama2-7B", dim=4096, epsilon=0.0645)
    items = {item["model"]: item for item in http.get("/v1/models/published").json()["items"]}
    assert items["Llama 2 7B"]["analysed"]["analysis_id"] == newer


def test_the_table_has_the_same_rows(http, settings):
    id = analysed(settings, "microsoft/phi-2", dim=2560, epsilon=0.055)
    answer = http.get("/v1/models/published.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["model"] for row in rows] == [row.model for row in PUBLISHED_CAPACITIES]
    assert [(row["model"], row["analysis_id"]) for row in rows if row["analysis_id"]] == [("Phi 2", id)]
    assert {row["published_log10"] for row in rows if row["status"] == "indeterminate"} == {""}


def test_no_two_published_names_are_the_same_words():
    assert len({name_words(row.model) for row in PUBLISHED_CAPACITIES}) == 45


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("Qwen/Qwen2.5-0.5B", "Qwen 2.5 0.5B"),
        ("Qwen/Qwen3-235B-A22B", "Qwen 3 235B A22B"),
        ("meta-llama/Llama-3.1-405B", "Llama 3.1 405B"),
        ("openai/gpt-oss-20b", "GPT OSS 20B"),
        ("google/gemma-2-27b", "Gemma 2 27B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral 7B Instruct v0.3"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek R1"),
        ("zai-org/GLM-4.6", "GLM 4.6"),
    ],
)
def test_a_hub_id_is_recognised_as_the_published_name(id, name):
    assert name_words(id) == name_words(name)
