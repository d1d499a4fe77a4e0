"""Bad input gets a clear answer, and the next analysis works."""

import struct

import pytest
import torch
from safetensors.torch import save

from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

GOOD = save({"wte.weight": torch.randn(60, 8, generator=torch.Generator().manual_seed(3))})


@pytest.fixture(autouse=True)
def the_next_analysis_works(service: ServiceProcess):
    yield
    upload = service.http.post("/v1/uploads", content=GOOD).json()
    assert service.analyse({"type": "upload", "upload_id": upload["id"]})["status"] == "succeeded"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no bytes"),
        (b"Not Found\n", "text"),
        (b'{"error": "gone"}', ""),
        (GOOD[:-7], "truncated"),
        (GOOD + b"\0", ""),
        (struct.pack("<Q", 2**63) + b"{}", "header"),
        (struct.pack("<Q", 2**64 - 1), "header"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "LFS"),
        (b"GGUF" + bytes(40), "GGUF"),
        (b"PK\x03\x04" + bytes(60), ""),
    ],
    ids=lambda value: repr(value[:12]) if isinstance(value, bytes) else None,
)
def test_a_body_that_holds_no_weights_is_refused_in_words(service: ServiceProcess, body: bytes, words: str) -> None:
    answer = service.http.post("/v1/uploads", params={"filename": "model.safetensors"}, content=body)
    problem = answer.json()
    assert answer.status_code == 422, problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert words.lower() in problem["detail"].lower()
    assert problem["hint"]
    assert problem["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("tensors", "code"),
    [
        ({"model.embed_tokens.weight": torch.ones(9, 4, dtype=torch.int8)}, "unsupported_dtype"),
        ({"model.layers.0.mlp.weight": torch.ones(9, 4)}, "tensor_not_found"),
        ({"bias": torch.ones(9)}, "tensor_not_found"),
        ({"wte.weight": torch.full((9, 4), float("nan"))}, "too_few_rows"),
        ({"wte.weight": torch.zeros(9, 4)}, "too_few_rows"),
        ({"wte.weight": torch.ones(1, 4)}, "too_few_rows"),
        ({"wte.weight": torch.ones(9, 4, 2)}, "not_a_matrix"),
    ],
)
def test_weights_that_cannot_be_measured_fail_with_a_code_and_a_hint(
    service: ServiceProcess, tensors, code: str
) -> None:
    upload = service.http.post("/v1/uploads", content=save(tensors)).json()
    answer = service.analyse({"type": "upload", "upload_id": upload["id"]})
    assert (answer["status"], answer["error"]["code"]) == ("failed", code)
    assert answer["error"]["hint"]
    assert answer["result"] is None


def test_unknown_models_and_revisions_are_refused_at_once(service: ServiceProcess, hub: LoopbackHub) -> None:
    hub.add_model("example/known", {"model.safetensors": GOOD})
    for source, status, code in (
        ({"model_id": "example/unknown"}, 404, "model_not_found"),
        ({"model_id": "example/known", "revision": "no-such-branch"}, 404, "revision_not_found"),
        ({"model_id": "../../etc/passwd"}, 422, "invalid_model_id"),
        ({"model_id": "a/b/c"}, 422, "invalid_model_id"),
    ):
        answer = service.http.post("/v1/analyses", json={"kind": "embedding", "source": {"type": "hub", **source}})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.json()["hint"]


def test_a_silent_hub_is_a_503_that_says_when_to_try_again(service: ServiceProcess, hub: LoopbackHub) -> None:
    hub.add_model("example/down", {"model.safetensors": GOOD})
    hub.faults.api_status = 503
    try:
        source = {"type": "hub", "model_id": "example/down"}
        answer = service.http.post("/v1/analyses", json={"kind": "embedding", "source": source})
    finally:
        hub.reset()
    assert (answer.status_code, answer.json()["code"]) == (503, "hub_unavailable")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../b", "link", "missing"])
def test_paths_outside_the_root_are_refused(service: ServiceProcess, path_root, tmp_path, path: str) -> None:
    secret = tmp_path / "secret.safetensors"
    secret.write_bytes(GOOD)
    link = path_root / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    answer = service.http.post("/v1/analyses", json={"kind": "embedding", "source": {"type": "path", "path": path}})
    expected = (404, "path_not_found") if path == "missing" else (422, "path_not_allowed")
    assert (answer.status_code, answer.json()["code"]) == expected
    assert str(tmp_path) not in answer.text


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"kind": "embedding"}, "/source"),
        ({"kind": "embedding", "source": {"type": "hub"}}, "/source/model_id"),
        ({"kind": "embedding", "source": {"type": "ftp"}}, "/source"),
        ({"kind": "embedding", "source": {"type": "hub", "model_id": "a/b"}, "colour": 1}, "/colour"),
        ({"kind": "embedding", "source": {"type": "hub", "model_id": 7}}, "/source/model_id"),
        ({"kind": "embedding", "source": {"type": "hub", "model_id": "a\0b"}}, "/source/model_id"),
        ({"kind": "embedding", "source": {"type": "hub", "model_id": "a/b"}, "tensors": {}}, "/tensors"),
        ({"kind": "embedding", "source": {"type": "hub", "model_id": "a/b"}, "labels": {"a": "\n"}}, "/labels/a"),
        ({"kind": "weather"}, "/kind"),
    ],
)
def test_a_wrong_field_is_named_by_its_pointer(service: ServiceProcess, body, pointer: str) -> None:
    answer = service.http.post("/v1/analyses", json=body)
    assert answer.status_code == 422
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("method", "url", "status"),
    [
        ("GET", "/v1/analyses/an_none", 404),
        ("GET", "/v1/analyses/%00", 404),
        ("GET", "/v1/uploads/upl_none", 404),
        ("DELETE", "/v1/uploads/upl_none", 404),
        ("GET", "/v1/analyses?cursor=garbage", 422),
        ("GET", "/v1/analyses?limit=0", 422),
        ("GET", "/v1/analyses?sort=secret", 422),
        ("GET", "/v1/analyses?status=asleep", 422),
        ("GET", "/v1/analyses?model_id=%00", 422),
        ("GET", "/v1/analyses?label=%00:%00", 422),
        ("GET", "/v1/models?q=%00", 422),
        ("GET", "/v1/models?q=%25_%5C&sort=-capacity", 200),
        ("GET", "/v1/analyses?model_id=%ED%A0%80", 200),
        ("GET", "/v1/models?min_dim=99999999999999999999", 422),
        ("GET", "/v1/models?class=huge", 422),
        ("GET", "/v1/comparisons", 422),
        ("GET", "/v1/comparisons?model=a/b&model=c/d%00", 422),
        ("GET", "/v1/capacity?dim=0&epsilon=0.1", 422),
        ("GET", "/v1/capacity?dim=64&epsilon=nan", 422),
        ("GET", "/v1/capacity?dim=64&epsilon=inf", 422),
        ("GET", "/v1/capacity/epsilon?dim=64", 422),
        ("GET", "/v1/capacity/epsilon?dim=1&directions=1e300", 422),
        ("GET", "/v1/capacity/dimension?epsilon=0&directions=1e300", 422),
        ("POST", "/v1/models", 405),
        ("GET", "/nowhere", 404),
    ],
)
def test_every_refusal_is_a_problem_document(service: ServiceProcess, method: str, url: str, status: int) -> None:
    answer = service.http.request(method, url)
    assert answer.status_code == status, answer.text
    if status >= 400:
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail", "instance", "code", "request_id"} <= problem.keys()
        assert problem["status"] == status


def test_a_body_that_is_not_json_is_a_400(service: ServiceProcess) -> None:
    answer = service.http.post("/v1/analyses", content=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_json")
