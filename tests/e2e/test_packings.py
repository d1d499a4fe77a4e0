"""Packings as analyses: asked for, found by a worker, downloaded, and as good as they say."""

import time
from math import sqrt
from pathlib import Path

import httpx2
import numpy as np
import psutil
import pytest
from safetensors.numpy import load

from tests.e2e.test_jobs import until_running
from tests.e2e.test_lifecycle import is_running_a_job
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

MIB = 1024**2


def ask(service: ServiceProcess, **question: object) -> httpx2.Response:
    body = {"kind": "packing", **question}
    return service.http.post("/v1/analyses", json=body, headers={"Prefer": "wait=60"})


def found(service: ServiceProcess, **question: object) -> dict:
    answer = ask(service, **question).json()
    assert answer["status"] == "succeeded", answer
    return answer


def largest_cosine(vectors: np.ndarray) -> float:
    """Over all pairs, in float64."""
    U = vectors.astype(np.float64)
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    G = np.abs(U @ U.T)
    np.fill_diagonal(G, 0)
    return float(G.max())


@pytest.mark.parametrize(
    "question",
    [
        {"vectors": 200, "dim": 16, "steps": 100},
        {"vectors": 200, "dim": 16, "draws": 20, "method": "random"},
        {"vectors": 200, "dim": 16, "method": "code"},
        {"vectors": 200, "dim": 20, "method": "code"},
        {"vectors": 9, "dim": 12, "method": "code"},
        {"vectors": 9, "dim": 12, "method": "optimized"},
    ],
    ids=lambda question: f"{question.get('method', 'optimized')}-{question['vectors']}-{question['dim']}",
)
def test_the_downloaded_vectors_have_the_epsilon_that_the_result_says(service: ServiceProcess, question) -> None:
    analysis = found(service, **question)
    result = analysis["result"]
    k, d = question["vectors"], question["dim"]
    answer = service.http.get(result["links"]["vectors"])
    assert answer.status_code == 200
    assert answer.headers["etag"] == f'"{analysis["digest"].removeprefix("sha256:")}"'
    vectors = load(answer.content)["vectors"]
    assert vectors.shape == (k, d)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(k), abs=1e-6)
    assert largest_cosine(vectors) == pytest.approx(result["epsilon"], abs=1e-12)
    welch = sqrt(max(0, k - d) / (d * (k - 1)))
    assert result["welch_bound"] == pytest.approx(welch)
    assert result["epsilon"] >= welch
    assert (result["ratio_to_welch"] is None) == (k <= d)
    assert (result["vectors"], result["dim"], result["method"]) == (k, d, question.get("method", "optimized"))
    assert (
        service.http.get(result["links"]["vectors"], headers={"If-None-Match": answer.headers["etag"]}).status_code
        == 304
    )


def test_the_nordstrom_robinson_code_and_its_proof(service: ServiceProcess) -> None:
    result = found(service, vectors=128, dim=16, method="code")["result"]
    assert (result["epsilon"], result["steps"], result["seed"], result["history"]) == (0.25, None, None, [])
    assert (result["proof"]["by"], result["proof"]["m"], result["proof"]["terms"]) == ("walsh_hadamard", 4, 1)
    assert 10 ** result["bounds"]["constructed_log10"] == pytest.approx(144)  # with the sixteen axes


@pytest.mark.parametrize(("vectors", "dim"), [(6, 3), (10, 5), (16, 6), (28, 7)])
def test_equiangular_lines_are_found_in_a_few_starts(service: ServiceProcess, vectors: int, dim: int) -> None:
    """As docs/packings.md asks for them; they exist, and meet the Welch bound."""
    analysis = found(service, vectors=vectors, dim=dim, steps=1000, restarts=8, seed=0)
    result = analysis["result"]
    assert 1 <= result["ratio_to_welch"] < 1 + 1e-4
    assert 1 <= result["starts"] <= 8
    assert largest_cosine(load(service.http.get(result["links"]["vectors"]).content)["vectors"]) == pytest.approx(
        sqrt((vectors - dim) / (dim * (vectors - 1))), rel=1e-4
    )


def test_a_published_cell_is_answered_with_what_was_published(service: ServiceProcess) -> None:
    result = found(service, vectors=2000, dim=256, steps=1, method="random")["result"]
    assert result["published_epsilon"] == 4644 / 2**14
    result = found(service, vectors=2000, dim=256, steps=40)["result"]
    assert result["published_epsilon"] == 0.0911366
    assert result["epsilon"] < result["published_epsilon"]  # in a hundredth of its steps
    assert len(result["history"]) == 41


def test_the_same_parameters_are_the_same_question_and_what_a_code_ignores_is_none(service: ServiceProcess) -> None:
    first = found(service, vectors=20, dim=5, steps=10, seed=3)
    again = ask(service, vectors=20, dim=5, steps=10, seed=3, device=None).json()
    assert (again["id"], again["deduplicated"]) == (first["id"], True)
    other = found(service, vectors=20, dim=5, steps=10, seed=4)
    assert other["id"] != first["id"]
    assert other["result"]["epsilon"] != first["result"]["epsilon"]
    drawn = found(service, vectors=20, dim=5, method="random", draws=7)
    assert found(service, vectors=20, dim=5, method="random", steps=7)["id"] == drawn["id"]
    code = found(service, vectors=20, dim=8, method="code", seed=1)
    assert found(service, vectors=20, dim=8, method="code", seed=2)["id"] == code["id"]


def test_a_set_that_nobody_knows_is_a_failed_analysis_with_a_reason(service: ServiceProcess) -> None:
    answer = ask(service, vectors=1000, dim=4, method="code").json()
    assert (answer["status"], answer["error"]["code"]) == ("failed", "too_few_lines")
    assert "1,000 lines in 4 dimensions" in answer["error"]["detail"]
    missing = service.http.get(f"/v1/analyses/{answer['id']}/vectors.safetensors")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "failed" in missing.json()["hint"]


@pytest.mark.parametrize(
    ("question", "pointer", "words"),
    [
        ({"dim": 4}, "/vectors", "required"),
        ({"vectors": 1, "dim": 4}, "/vectors", "2"),
        ({"vectors": 2**17, "dim": 4}, "/vectors", "65,536"),
        ({"vectors": 2**16, "dim": 2**12}, "/dim", "134,217,728"),
        ({"vectors": 2**22, "dim": 2**11, "method": "code"}, "/dim", "1,073,741,824"),
        ({"vectors": 9, "dim": 4, "steps": 100_001}, "/steps", "100000"),
        ({"vectors": 9, "dim": 4, "draws": 2}, "/draws", "random"),
        ({"vectors": 9, "dim": 4, "seed": -1}, "/seed", "0"),
        ({"vectors": 9, "dim": 4, "restarts": 101}, "/restarts", "100"),
        ({"vectors": 9, "dim": 4, "restarts": 2, "method": "code"}, "/restarts", "optimized"),
        ({"vectors": 9, "dim": 4, "method": "magic"}, "/method", "optimized"),
        ({"vectors": 9, "dim": 4, "source": {"type": "hub"}}, "/source", "permitted"),
        ({"vectors": "many", "dim": 4}, "/vectors", "integer"),
        ({"vectors": 9, "dim": 4, "labels": {"a": "\n"}}, "/labels/a", ""),
    ],
)
def test_a_wrong_packing_is_refused_with_a_pointer_and_the_limit(
    service: ServiceProcess, question, pointer: str, words: str
) -> None:
    answer = ask(service, **question)
    assert answer.status_code == 422
    errors = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert words in errors[pointer]


@pytest.mark.parametrize(("body", "words"), [({}, "say which by 'kind'"), ({"kind": "cake"}, "'embedding', 'packing'")])
def test_without_a_kind_there_is_no_question(service: ServiceProcess, body, words: str) -> None:
    answer = service.http.post("/v1/analyses", json=body | {"vectors": 9})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/kind"
    assert words in error["detail"]


def test_a_search_tells_its_steps_and_is_gone_two_seconds_after_its_cancel(service: ServiceProcess) -> None:
    body = {"kind": "packing", "vectors": 8000, "dim": 512, "steps": 100_000}
    asked = service.http.post("/v1/analyses", json=body).json()
    until_running(service, asked["id"])
    url = f"/v1/analyses/{asked['id']}"
    deadline = time.monotonic() + 60
    while not (progress := service.http.get(url).json()["progress"])["done"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (progress["stage"], progress["total"], progress["unit"]) == ("optimize", 100_000, "steps")
    assert "ε" in progress["message"]
    assert service.http.get(f"{url}/vectors.safetensors").status_code == 404
    assert service.http.post(f"{url}/cancel").json()["status"] == "cancelled"
    deadline = time.monotonic() + 2
    while [process for process in service.family() if is_running_a_job(process)]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_eight_thousand_vectors_take_far_less_memory_than_their_cosines(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, env={"GRAMIAN_DEVICE": "cpu"})
    try:
        body = {"kind": "packing", "vectors": 8000, "dim": 256, "steps": 3}
        asked = service.http.post("/v1/analyses", json=body).json()
        peak = 0
        while service.http.get(f"/v1/analyses/{asked['id']}").json()["status"] in ("queued", "running"):
            for process in filter(is_running_a_job, service.family()):
                try:
                    peak = max(peak, peak_bytes(process))
                except (OSError, psutil.Error, StopIteration):
                    continue  # it ended between two looks
            time.sleep(0.02)
        result = service.http.get(f"/v1/analyses/{asked['id']}").json()["result"]
        assert result["steps"] == 3
        assert 8000 * 256 * 4 < peak < 600 * MIB
    finally:
        assert service.stop() == 0


def peak_bytes(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def test_a_file_that_the_folder_has_lost_is_missed_in_words(service: ServiceProcess) -> None:
    analysis = found(service, vectors=21, dim=5, steps=10)
    digest = analysis["digest"].removeprefix("sha256:")
    (service.data_dir / "artifacts" / digest[:2] / digest).unlink()
    answer = service.http.get(analysis["result"]["links"]["vectors"])
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "artifacts" in answer.json()["hint"]
