"""Secrets that were given to the service are in no log line, answer, metric, file or column of the database."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import torch
from safetensors.torch import save
from sqlalchemy import Engine, inspect, text

from gramian.storage.engine import open_engine
from gramian.webhooks import new_secret
from tests.hub.loopback import SIGNATURE, LoopbackHub
from tests.servers.gramian_service import ServiceProcess, clean_environment
from tests.servers.hub_webhooks import pushed
from tests.servers.receiver import ADDRESS, Receiver, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("secrets")]

HF_TOKEN = "hf_planted-token-4711"
SEALING = "planted-sealing-key-that-is-long-enough"
HUB_SECRET = "planted-hub-secret"
SIGNING = new_secret()
IN_BODY = "planted-in-a-wrong-body"
IN_QUERY = "planted-in-a-query"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return request.getfixturevalue("postgres").create_database()
    return f"sqlite:///{tmp_path / 'gramian.db'}"


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as found:
        found.tokens.add(HF_TOKEN)
        yield found


@pytest.fixture
def environment(database: str, hub: LoopbackHub, tmp_path: Path) -> dict[str, str]:
    return {
        "GRAMIAN_DATABASE_URL": database,
        "GRAMIAN_DATA_DIR": str(tmp_path),
        "GRAMIAN_REQUIRE_KEYS": "true",
        "GRAMIAN_DEVICE": "cpu",
        "GRAMIAN_LOG_LEVEL": "DEBUG",
        "GRAMIAN_LOG_FORMAT": "json",
        "GRAMIAN_SECRET_KEY": SEALING,
        "GRAMIAN_HUB_WEBHOOK_SECRET": HUB_SECRET,
        "GRAMIAN_GENERIC_HOOK_SECRET": SIGNING,
        "GRAMIAN_WEBHOOK_ALLOW": ADDRESS,
        "GRAMIAN_RATE_LIMIT_PER_MINUTE": "1000",
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": HF_TOKEN,
    }


def made_key(environment: dict[str, str]) -> str:
    found = subprocess.run(
        [sys.executable, "-m", "service", "keys", "create", "root", "--scope", "operator"],
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def columns(engine: Engine) -> Iterator[tuple[str, str]]:
    """Every row of every table, as text."""
    with engine.connect() as connection:
        for table in inspect(connection).get_table_names():
            for row in connection.execute(text(f'SELECT * FROM "{table}"')).mappings():  # noqa: S608
                yield table, json.dumps({name: str(value) for name, value in row.items()}, ensure_ascii=False)


def test_planted_secrets_are_nowhere(
    environment: dict[str, str], database: str, hub: LoopbackHub, tmp_path: Path
) -> None:
    secrets = [HF_TOKEN, SEALING, HUB_SECRET, SIGNING, SIGNING.removeprefix("whsec_"), SIGNATURE, IN_BODY, IN_QUERY]
    operator = made_key(environment)
    service = ServiceProcess(tmp_path, env=environment)
    answers: list[str] = []

    def ask(method: str, path: str, *, key: str | None = operator, shown: str | None = None, **more) -> httpx2.Response:
        headers = ({"Authorization": f"Bearer {key}"} if key else {}) | more.pop("headers", {})
        answer = service.http.request(method, path, headers=headers, **more)
        told = answer.text + str(answer.headers.multi_items())
        if shown:  # the one answer that may tell it
            secrets.append(answer.json()[shown])
            told = told.replace(answer.json()[shown], "")
        answers.append(told)
        return answer

    secrets.append(operator)
    with Receiver() as receiver:
        writer = ask("POST", "/v1/keys", json={"name": "ci", "scope": "write"}, shown="key").json()
        ask("POST", f"/v1/keys/{writer['id']}/rotate", json={}, shown="key")
        made = ask("POST", "/v1/webhook-endpoints", json={"url": receiver.url + "/hook"}, shown="secret").json()
        ask("POST", f"/v1/webhook-endpoints/{made['id']}/rotate-secret", shown="secret")
        ask("POST", "/v1/webhook-endpoints/callbacks/rotate-secret", shown="secret")
        ask("POST", "/v1/watches", json={"model_id": "acme/*"})
        rows = torch.randn(600, 64, generator=torch.Generator().manual_seed(0))
        commit = hub.add_model("acme/m", {"model.safetensors": save({"wte.weight": rows})})
        told = pushed("acme/m", commit)
        ask("POST", "/v1/hooks/huggingface", key=None, json=told, headers={"X-Webhook-Secret": HUB_SECRET})
        ask("POST", f"/v1/hooks/huggingface?secret={HUB_SECRET}", key=None, json=told)
        ask("POST", "/v1/hooks/huggingface?secret=" + 200 * IN_QUERY, key=None, json=told)
        question = {"kind": "embedding", "source": {"type": "hub", "model_id": "acme/m"}}
        question["callback"] = {"url": receiver.url + "/once"}
        done = ask("POST", "/v1/analyses", json=question, headers={"Prefer": "wait=60"}).json()
        assert done["status"] == "succeeded", done["error"]
        receiver.replies.append(Reply(500))
        receiver.until(2)

        # what is wrong, and must not be repeated in the refusal
        for path, body in (
            ("/v1/keys", {"name": IN_BODY, "scope": IN_BODY}),
            ("/v1/keys", {"name": "x", "key": IN_BODY}),
            ("/v1/webhook-endpoints", {"url": f"https://user:{IN_BODY}@example.org/"}),
            ("/v1/webhook-endpoints", {"url": "https://example.org/", "secret": IN_BODY}),
            ("/v1/analyses", {"kind": "embedding", "source": {"type": "hub", "model_id": "a/b", "token": IN_BODY}}),
            ("/v1/watches", {"model_id": "a/b", "token": IN_BODY}),
        ):
            assert ask("POST", path, json=body).status_code == 422, path
        ask("GET", "/v1/models", key=operator[:-1] + "x")
        ask("GET", f"/v1/models?token={IN_QUERY}")
        for path in (
            "/v1/keys",
            "/v1/webhook-endpoints",
            f"/v1/webhook-endpoints/{made['id']}/deliveries",
            "/v1/audit",
        ):
            ask("GET", path)
        (delivery,) = ask("GET", f"/v1/webhook-endpoints/{made['id']}/deliveries").json()["items"]
        ask("GET", f"/v1/webhook-endpoints/{made['id']}/deliveries/{delivery['id']}")
        for path in ("/metrics", "/openapi.json", "/readyz", "/v1/access", f"/v1/analyses/{done['id']}", "/v1/models"):
            ask("GET", path)
    assert service.stop() == 0

    assert len(secrets) == 14
    plain = [secret.removeprefix("whsec_") for secret in secrets]
    for told in answers:
        assert not [secret for secret in plain if secret in told], told[:300]
    log = service.log.read_text()
    assert not [secret for secret in plain if secret in log]
    engine = open_engine(database)
    for table, row in columns(engine):
        assert not [secret for secret in plain if secret in row], (table, row[:300])
    engine.dispose()
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            content = (Path(folder) / name).read_bytes()
            assert not [secret for secret in plain if secret.encode() in content], name
