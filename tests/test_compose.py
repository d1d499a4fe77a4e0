"""The container files: valid, closed by default, and their commands do the work when run as plain processes."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np
import psutil
import pytest
import safetensors.numpy
import yaml

from gramian.storage import schema
from gramian.storage.engine import open_engine
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

ROOT = Path(__file__).parent.parent
COMPOSE_FILE = ROOT / "docker-compose.yml"
COMPOSE = yaml.safe_load(COMPOSE_FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("gramian")}
DOCKERFILE = (ROOT / "Dockerfile").read_text()

SECRET_NAME = re.compile(r"PASSWORD|TOKEN|SECRET|CREDENTIAL|_KEY$")
DEVELOPMENT_DEFAULT = "${POSTGRES_PASSWORD:-gramian-development-only}"
START_SECONDS = 60


def interpolated(value: object) -> str:
    """What Compose makes of a value when the host sets none of the variables."""
    return re.sub(r"\$\{\w+(?::-([^}]*))?\}", lambda match: match[1] or "", str(value))


def environment(service: str) -> dict[str, str]:
    """A service's variables; those without a value are passed through from the host, where they are not set."""
    given = SERVICES[service]["environment"]
    return {name: interpolated(value) for name, value in given.items() if value is not None}


def data_folder_in_the_image() -> str:
    found = re.search(r"GRAMIAN_DATA_DIR=(\S+)", DOCKERFILE)
    assert found
    return found[1]


def image_user() -> str:
    return re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1]


def health_check() -> list[str]:
    found = re.search(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found
    return json.loads(found[1])


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


def strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


# -- the file as it stands --


def test_the_file_is_valid_by_the_compose_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE_FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_runs_as_root_or_can_become_it(service: str) -> None:
    found = SERVICES[service]
    user = found.get("user") or image_user()
    assert service in OURS or "user" in found
    assert all(int(number) > 0 for number in user.split(":"))
    assert found["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in found["security_opt"]
    assert not found.keys() & {"privileged", "cap_add", "pid", "network_mode"}


def test_every_root_file_system_is_read_only_but_the_one_that_the_gpu_runtime_writes_to() -> None:
    assert [name for name, service in SERVICES.items() if not service["read_only"]] == ["worker-gpu"]


def test_nothing_but_the_api_is_published_and_that_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert list(published) == ["api"]
    [port] = published["api"]
    address, host_port, container_port = interpolated(port).split(":")
    assert (address, host_port) == ("127.0.0.1", "8000")
    assert container_port == environment("api")["GRAMIAN_PORT"]


def test_metrics_of_workers_are_served_where_only_other_containers_reach_them() -> None:
    for worker in ("worker", "worker-gpu"):
        assert int(environment(worker)["GRAMIAN_METRICS_PORT"]) > 0
        assert "backend" in SERVICES[worker]["networks"]
        assert "ports" not in SERVICES[worker]


def test_database_and_queue_live_on_a_network_without_a_way_out() -> None:
    assert COMPOSE["networks"]["backend"]["internal"] is True
    assert SERVICES["postgres"]["networks"] == SERVICES["redis"]["networks"] == ["backend"]


def test_the_only_literal_secret_is_the_documented_development_default() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if SECRET_NAME.search(name):
                assert value in (None, DEVELOPMENT_DEFAULT), name
    assert COMPOSE_FILE.read_text().count("gramian-development-only") == 1
    for text in strings(COMPOSE):
        assert not re.match(r"\w+://[^/@\s]*:[^/@\s]*@", text), "a password in a URL"


def test_no_secret_is_baked_into_the_image() -> None:
    set_here = re.findall(r"^(?:ARG|ENV|\s+)\s*(\w+)=", DOCKERFILE, re.MULTILINE)
    assert "GRAMIAN_DATA_DIR" in set_here
    assert not [name for name in set_here if SECRET_NAME.search(name)]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(" ".join(copied).split()) == sorted(allowed)


def test_images_are_pinned_and_ours_carry_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    for image in [service["image"] for service in SERVICES.values()] + bases:
        assert re.fullmatch(r"[\w./-]+:\d[\w.-]*", image), image
    assert {service["image"].partition(":")[2] for service in OURS.values()} == {version}


@pytest.mark.parametrize("service", ["api", "worker", "worker-gpu"])
def test_api_and_workers_share_the_files_and_wait_for_the_schema(service: str) -> None:
    assert SERVICES[service]["volumes"] == [f"data:{data_folder_in_the_image()}"]
    assert SERVICES[service]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_workers_get_longer_to_stop_than_the_api() -> None:
    api = seconds(SERVICES["api"]["stop_grace_period"])
    assert seconds(SERVICES["worker"]["stop_grace_period"]) > api
    assert seconds(SERVICES["worker-gpu"]["stop_grace_period"]) > api


def test_the_gpu_worker_is_asked_for_and_differs_in_its_device_alone() -> None:
    assert SERVICES["worker-gpu"]["profiles"] == ["gpu"]
    assert "profiles" not in SERVICES["worker"]
    assert environment("worker-gpu") == environment("worker") | {"GRAMIAN_DEVICE": "cuda"}
    assert SERVICES["worker-gpu"]["command"] == SERVICES["worker"]["command"]


# -- the commands, as plain processes --


class PlainProcesses:
    """The file's services without containers: its commands and variables, with the test's servers and folder."""

    def __init__(self, folder: Path, *, database_url: str, redis_url: str) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.data_dir.mkdir()
        self.database_url, self.redis_url = database_url, redis_url

    def environment(self, service: str) -> dict[str, str]:
        values = environment(service)
        assert urlsplit(values["GRAMIAN_DATABASE_URL"]).hostname == "postgres"
        assert urlsplit(values["GRAMIAN_REDIS_URL"]).hostname == "redis"
        values |= {"GRAMIAN_DATABASE_URL": self.database_url, "GRAMIAN_REDIS_URL": self.redis_url}
        values |= {"GRAMIAN_DATA_DIR": str(self.data_dir)}
        if "GRAMIAN_HOST" in values:
            values |= {"GRAMIAN_HOST": "127.0.0.1", "GRAMIAN_PORT": "0"}
        if "GRAMIAN_METRICS_HOST" in values:
            values |= {"GRAMIAN_METRICS_HOST": "127.0.0.1", "GRAMIAN_METRICS_PORT": "0"}
        ours = ("GRAMIAN_", "HF_", "PG")
        return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | values

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """The service's process; asked to stop, and waited for, at the end."""
        program, *arguments = SERVICES[service]["command"]
        with (self.folder / f"{service}.log").open("ab") as log:
            process = subprocess.Popen(
                [Path(sys.executable).with_name(program), *arguments],
                env=self.environment(service),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def left(self) -> list[psutil.Process]:
        """Every process, of whatever parent, that was started for this data folder."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("GRAMIAN_DATA_DIR") == str(self.data_dir):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def address(self) -> str:
        """Where the API listens, by the file that it writes."""

        def announced() -> str | None:
            try:
                return json.loads((self.data_dir / "serve.json").read_text())["url"]
            except (OSError, ValueError, KeyError):
                return None

        return self.eventually(announced, "the API announces its address")

    def is_healthy(self, url: str) -> bool:
        """What the image's own health check says."""
        program, *arguments = health_check()
        assert program == "python"
        values = self.environment("api") | {"GRAMIAN_PORT": str(urlsplit(url).port)}
        done = subprocess.run([sys.executable, *arguments], env=values, capture_output=True, check=False)
        return done.returncode == 0

    def eventually(self, ask: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if answer := ask():
                return answer
            time.sleep(0.1)
        logs = "\n".join(f"-- {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))
        raise AssertionError(f"not within {START_SECONDS} s: {what}\n{logs}")


@pytest.fixture
def processes(postgres: PostgresServer, valkey: ValkeyServer, tmp_path: Path) -> Iterator[PlainProcesses]:
    found = PlainProcesses(tmp_path, database_url=postgres.create_database(), redis_url=valkey.url)
    yield found
    for process in found.left():
        process.kill()


@pytest.mark.e2e
def test_migrate_api_and_worker_analyse_an_upload_and_leave_no_process(processes: PlainProcesses) -> None:
    W = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)  # (n, d)
    U = W.astype(np.float64) / np.linalg.norm(W.astype(np.float64), axis=1, keepdims=True)
    cosines = (U @ U.T)[np.triu_indices(len(U), k=1)]  # every pair, the plain way

    with processes.running("migrate") as migration:
        assert migration.wait(timeout=START_SECONDS) == 0
    engine = open_engine(processes.database_url)
    assert schema.is_current(engine)
    engine.dispose()

    with ExitStack() as stack:
        api = stack.enter_context(processes.running("api"))
        url = processes.address()
        processes.eventually(lambda: processes.is_healthy(url), "the image's health check is content")
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=30, trust_env=False))

        body = safetensors.numpy.save({"wte.weight": W})
        upload = http.post("/v1/uploads", params={"filename": "model.safetensors"}, content=body)
        assert upload.status_code == 201, upload.text
        source = {"type": "upload", "upload_id": upload.json()["id"]}
        accepted = http.post("/v1/analyses", json={"kind": "embedding", "source": source})
        assert (accepted.status_code, accepted.json()["status"]) == (202, "queued"), accepted.text  # no worker yet

        worker = stack.enter_context(processes.running("worker"))

        def ended() -> dict[str, Any] | None:
            found = http.get(accepted.headers["Location"]).json()
            return None if found["status"] in ("queued", "running") else found

        analysis = processes.eventually(ended, "the analysis ends")
        assert analysis["status"] == "succeeded", analysis["error"]
        assert analysis["provenance"]["device"] == environment("worker")["GRAMIAN_DEVICE"]
        [matrix] = analysis["result"]["matrices"]
        assert matrix["epsilon"]["value"] == pytest.approx(cosines.mean() + 2 * cosines.std(), abs=1e-9)
        assert {api.pid, worker.pid} < {process.pid for process in processes.left()}

    assert (api.returncode, worker.returncode) == (0, 0)
    assert processes.left() == []
    assert not processes.is_healthy(url)
