"""A model goes in over HTTP, numbers come out: on real weights and on planted ones, by every source."""

import hashlib
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save

from benchmarks.real_weights import minilm
from tests.e2e.oracle import epsilon
from tests.hub.loopback import LoopbackHub
from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
# An independent float64 script over all 465,780,981 pairs of the same file.
MINILM_EPSILON = 0.2013601561852628
MINILM_EPSILON_ERROR = 0.001633771832457823


def random_matrix(rows: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def test_minilm_gives_the_same_numbers_by_upload_path_and_hub(
    service: ServiceProcess, hub: LoopbackHub, path_root
) -> None:
    shutil.copy(minilm(), path_root / "model.safetensors")
    config = b'{"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 30522}'
    hub.add_model(MINILM, {"config.json": config, "model.safetensors": minilm()})
    sources = [
        {"type": "upload", "upload_id": service.upload(minilm())["id"]},
        {"type": "path", "path": "model.safetensors"},
        {"type": "hub", "model_id": MINILM},
    ]
    answers = [service.analyse(source) for source in sources]
    for answer, source in zip(answers, sources, strict=True):
        assert answer["status"] == "succeeded", answer["error"]
        assert not answer["deduplicated"]
        again = service.analyse(source)
        assert (again["id"], again["deduplicated"]) == (answer["id"], True)
        (matrix,) = answer["result"]["matrices"]
        assert (matrix["role"], matrix["tensor"]) == ("input_embedding", "embeddings.word_embeddings.weight")
        assert (matrix["rows_used"], matrix["dim"], matrix["dtype"]) == (30522, 384, "F32")
        assert matrix["epsilon"]["value"] == pytest.approx(MINILM_EPSILON, rel=1e-6)
        assert matrix["epsilon"]["standard_error"] == pytest.approx(MINILM_EPSILON_ERROR, rel=1e-5)
        assert matrix["class"] == "high_epsilon"
        assert matrix["capacity"]["status"] == "indeterminate"
        assert "0.1" in matrix["capacity"]["reason"]
        assert matrix["capacity"]["directions"] is None
        assert matrix["superposition"]["mean_squared_overlap"] >= matrix["superposition"]["welch_floor"]
        assert answer["result"]["tying"]["finding"] == "no_head"
    assert answers[0]["result"]["matrices"] == answers[1]["result"]["matrices"] == answers[2]["result"]["matrices"]
    assert answers[2]["model"]["commit"] == hub_commit(service, answers[2]["id"])


def hub_commit(service: ServiceProcess, id: str) -> str:
    (row,) = [item for item in service.http.get("/v1/models").json()["items"] if item["analysis_id"] == id]
    assert (row["model_id"], row["revision"]) == (MINILM, "main")
    return row["commit"]


def test_a_sharded_model_is_read_by_the_byte_and_measured_exactly(service: ServiceProcess, hub: LoopbackHub) -> None:
    embedding = (random_matrix(32000, 1024) + 0.05).to(torch.bfloat16)
    shards = {
        "model-00001-of-00002.safetensors": {"model.layers.0.mlp.up_proj.weight": random_matrix(512, 1024)},
        "model-00002-of-00002.safetensors": {
            "model.layers.1.mlp.up_proj.weight": random_matrix(512, 1024, 1),
            "model.embed_tokens.weight": embedding,
        },
    }
    index = {name: file for file, tensors in shards.items() for name in tensors}
    files = {file: save(tensors) for file, tensors in shards.items()}
    files["model.safetensors.index.json"] = b'{"weight_map": ' + str(index).replace("'", '"').encode() + b"}"
    files["config.json"] = (
        b'{"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": true, "model_type": "llama"}'
    )
    commit = hub.add_model("example/sharded", files)
    hub.requests.clear()

    answer = service.analyse({"type": "hub", "model_id": "example/sharded"})
    assert answer["status"] == "succeeded", answer["error"]
    size = embedding.numel() * 2
    assert size <= answer["provenance"]["bytes_fetched"] <= 1.01 * size
    assert hub.body_bytes <= 1.01 * size
    assert not [asked for asked in hub.asked_for("00001-of-00002") if asked.body_bytes > 1000]
    assert answer["model"] == {"id": "example/sharded", "revision": "main", "commit": commit}
    assert answer["result"]["tying"]["finding"] == "tied"
    (matrix,) = answer["result"]["matrices"]
    assert matrix["epsilon"]["value"] == pytest.approx(epsilon(embedding.double().numpy()), rel=1e-6)
    assert matrix["class"] == "low_epsilon"
    capacity = matrix["capacity"]
    assert capacity["status"] == "estimated"
    assert capacity["interval_log10"][0] < capacity["log10_directions"] < capacity["interval_log10"][1]
    assert capacity["vocabulary_directions"] == 32000
    assert capacity["headroom"] == pytest.approx(capacity["directions"] - 32000)


def test_both_matrices_are_measured_where_they_differ_and_one_where_they_do_not(service: ServiceProcess) -> None:
    first, second = random_matrix(300, 16), random_matrix(300, 16, 1)
    for head, finding, roles in (
        (second, "untied", ["input_embedding", "output_embedding"]),
        (first, "tied", ["input_embedding"]),
    ):
        body = save({"model.embed_tokens.weight": first, "lm_head.weight": head.clone()})
        upload = service.http.post("/v1/uploads?filename=two.safetensors", content=body).json()
        assert [tensor["name"] for tensor in upload["tensors"]] == ["lm_head.weight", "model.embed_tokens.weight"]
        stored = hashlib.sha256(head.contiguous().numpy().tobytes()).hexdigest()
        assert upload["tensors"][0]["sha256"] == stored
        answer = service.analyse({"type": "upload", "upload_id": upload["id"]})
        assert answer["result"]["tying"]["finding"] == finding
        assert [matrix["role"] for matrix in answer["result"]["matrices"]] == roles
        for matrix, values in zip(answer["result"]["matrices"], (first, second), strict=False):
            assert matrix["epsilon"]["value"] == pytest.approx(epsilon(values.double().numpy()), rel=1e-6)
            assert matrix["digest"] == "sha256:" + hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()
            assert matrix["capacity"]["vocabulary_directions"] == 300 * len(roles)


def test_an_npy_array_and_a_named_tensor_are_measured_as_asked(service: ServiceProcess, path_root) -> None:
    values = np.random.default_rng(0).normal(size=(200, 12)).astype(np.float16)
    np.save(path_root / "array.npy", values)
    answer = service.analyse({"type": "path", "path": "array.npy"})
    assert answer["result"]["matrices"][0]["epsilon"]["value"] == pytest.approx(epsilon(values.astype(float)), rel=1e-6)

    upload = service.http.post("/v1/uploads", content=save({"W": random_matrix(100, 8)})).json()
    source = {"type": "upload", "upload_id": upload["id"]}
    refused = service.analyse(source)
    assert (refused["status"], refused["error"]["code"]) == ("failed", "tensor_not_found")
    assert refused["error"]["candidates"] == ["W"]
    assert service.analyse(source, tensors={"output": "W"})["result"]["matrices"][0]["role"] == "output_embedding"


def test_rows_that_cannot_be_used_are_left_out_counted_and_listed(service: ServiceProcess) -> None:
    values = random_matrix(50, 8)
    values[3] = 0
    values[7, 2] = float("nan")
    values[11, 0] = float("inf")
    upload = service.http.post("/v1/uploads", content=save({"wte.weight": values})).json()
    (matrix,) = service.analyse({"type": "upload", "upload_id": upload["id"]})["result"]["matrices"]
    assert (matrix["rows"], matrix["rows_used"]) == (50, 47)
    assert matrix["rows_excluded"] == {"zero": 1, "nonfinite": 2}
    assert matrix["hygiene"]["zero_rows"] == [3]
    assert matrix["hygiene"]["nonfinite_rows"] == [7, 11]
    kept = np.delete(values.double().numpy(), [3, 7, 11], axis=0)
    assert matrix["epsilon"]["value"] == pytest.approx(epsilon(kept), rel=1e-6)


def test_a_folder_is_read_through_its_index(service: ServiceProcess, path_root) -> None:
    folder = path_root / "checkpoint"
    folder.mkdir(exist_ok=True)
    values = random_matrix(120, 10)
    (folder / "shard-1.safetensors").write_bytes(save({"wte.weight": values}))
    (folder / "model.safetensors").write_bytes(save({"wte.weight": random_matrix(120, 10, 9)}))  # stray
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"wte.weight": "shard-1.safetensors"}}')
    answer = service.analyse({"type": "path", "path": "checkpoint"})
    assert answer["status"] == "succeeded", answer["error"]
    assert answer["result"]["matrices"][0]["epsilon"]["value"] == pytest.approx(
        epsilon(values.double().numpy()), rel=1e-6
    )


def test_a_new_commit_is_a_new_question_and_both_can_be_compared(service: ServiceProcess, hub: LoopbackHub) -> None:
    def files(seed: int) -> dict[str, bytes]:
        return {"model.safetensors": save({"wte.weight": random_matrix(150, 12, seed)})}

    hub.add_model("example/trained", files(0))
    first = service.analyse({"type": "hub", "model_id": "example/trained"})
    hub.push("example/trained", files(1))
    second = service.analyse({"type": "hub", "model_id": "example/trained"})
    assert second["id"] != first["id"]
    pinned = service.analyse({"type": "hub", "model_id": "example/trained", "revision": first["model"]["commit"]})
    assert pinned["id"] == first["id"]

    (row,) = service.http.get("/v1/models", params={"q": "example/trained"}).json()["items"]
    assert row["analysis_id"] == second["id"]
    references = {"model": ["example/trained", f"example/trained@{first['model']['commit'][:12]}"]}
    compared = service.http.get("/v1/comparisons", params=references).json()
    assert [item["analysis_id"] for item in compared["items"]] == [second["id"], first["id"]]
    (difference,) = [found for found in compared["differences"] if found["metric"] == "epsilon"]
    assert difference["difference"][1] == pytest.approx(
        compared["items"][1]["epsilon"] - compared["items"][0]["epsilon"]
    )
    assert compared["not_comparable"] == []
