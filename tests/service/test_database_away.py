"""What callers hear while the database is away."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from gramian.settings import Settings
from service.app import create_app

QUESTION = {"kind": "embedding", "source": {"type": "upload", "upload_id": "upl_1"}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/analyses", None),
        ("GET", "/v1/analyses/an_1/events", None),
        ("POST", "/v1/analyses", QUESTION),
        ("POST", "/v1/analyses/an_1/cancel", None),
        ("GET", "/v1/models", None),
    ],
)
def test_a_database_that_is_away_is_a_503_that_says_when_to_try_again(
    tmp_path: Path, method: str, path: str, body: dict | None
) -> None:
    settings = Settings(
        data_dir=tmp_path,
        database_url=f"postgresql+psycopg://gramian@/gramian?host={tmp_path}",
        redis_url=f"unix://{tmp_path}/none",
    )
    answer = asyncio.run(ask(settings, method, path, body))
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert str(tmp_path) not in answer.text


async def ask(settings: Settings, method: str, path: str, body: dict | None) -> httpx2.Response:
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://test") as client,
    ):
        return await client.request(method, path, json=body)
