"""The pairs themselves, over HTTP: histogram, quantiles and extremes against every pair formed here."""

import csv
import io
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from safetensors.torch import save

from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

ROWS, DIM, BINS = 1500, 48, 40


def drawn(seed: int) -> torch.Tensor:
    return torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(seed)) + 0.2


def cosines(W: torch.Tensor) -> np.ndarray:
    U = torch.nn.functional.normalize(W.double()).numpy()
    return (U @ U.T)[np.triu_indices(len(U), 1)]


def asked(service: ServiceProcess, tensors: dict[str, torch.Tensor], **question: object) -> dict:
    upload = service.http.post("/v1/uploads", params={"filename": "m.safetensors"}, content=save(tensors)).json()
    body = {"kind": "embedding", "source": {"type": "upload", "upload_id": upload["id"]}} | question
    answer = service.http.post("/v1/analyses", json=body, headers={"Prefer": "wait=60"}).json()
    assert answer["status"] == "succeeded", answer
    return answer


def test_exact_pairs_are_every_pair(service: ServiceProcess) -> None:
    W = drawn(1)
    found = asked(service, {"model.embed_tokens.weight": W}, pairs={"mode": "exact", "bins": BINS})
    (matrix,) = found["result"]["matrices"]
    cosine, expected = matrix["cosine"], cosines(W)
    assert (cosine["mode"], cosine["pairs_seen"], cosine["band"]) == ("exact", len(expected), None)
    assert (cosine["min"], cosine["max"]) == pytest.approx((expected.min(), expected.max()), abs=1e-6)
    assert cosine["mean_abs"] == pytest.approx(np.abs(expected).mean(), rel=1e-6)
    for quantile in cosine["quantiles"]:
        assert quantile["cosine"] == pytest.approx(np.quantile(expected, quantile["level"]), abs=1e-4)

    histogram = service.http.get(cosine["histogram"]).json()
    counts, edges = np.histogram(expected, bins=BINS, range=(-1, 1))
    assert histogram["edges"] == pytest.approx(edges)
    assert sum(histogram["counts"]) == histogram["pairs"] == len(expected)
    assert np.abs(np.array(histogram["counts"]) - counts).sum() < 1e-4 * len(expected)  # float32 at an edge
    assert (histogram["epsilon"], histogram["random"]) == (matrix["epsilon"]["value"], matrix["epsilon"]["random"])


def test_the_histogram_comes_as_a_table_and_as_a_picture(service: ServiceProcess) -> None:
    found = asked(service, {"model.embed_tokens.weight": drawn(1)}, pairs={"mode": "exact", "bins": BINS})
    base = f"/v1/analyses/{found['id']}"
    rows = list(csv.DictReader(io.StringIO(service.http.get(f"{base}/histogram.csv").text)))
    assert [int(row["count"]) for row in rows] == service.http.get(f"{base}/histogram").json()["counts"]
    for show in ("", "?show=cosines", "?show=capacity", "?role=input_embedding"):
        answer = service.http.get(f"{base}/plot.svg{show}")
        assert answer.headers["content-type"] == "image/svg+xml"
        words = " ".join(ElementTree.fromstring(answer.text).itertext())  # noqa: S314 - our own
        assert ("certainly exist" in words) == ("capacity" in show)
        assert "ε" in words


def test_a_draw_says_how_far_it_may_be_off_and_is_repeatable(service: ServiceProcess) -> None:
    W = drawn(2)
    choice = {"mode": "sampled", "samples": 50_000, "seed": 3}
    found = asked(service, {"model.embed_tokens.weight": W}, pairs=choice)
    cosine = found["result"]["matrices"][0]["cosine"]
    expected = cosines(W)
    assert (cosine["mode"], cosine["pairs_seen"]) == ("sampled", 50_000)
    assert cosine["band"] == pytest.approx(np.sqrt(np.log(40) / 100_000))
    assert abs(cosine["mean_abs"] - np.abs(expected).mean()) < 5 * cosine["mean_abs_standard_error"]
    for quantile in cosine["quantiles"]:
        share = (expected <= quantile["cosine"]).mean()
        assert abs(share - quantile["level"]) < cosine["band"] + 1e-3
    other = asked(service, {"model.embed_tokens.weight": W}, pairs=choice | {"seed": 4})
    assert other["id"] != found["id"]
    assert other["result"]["matrices"][0]["epsilon"] == found["result"]["matrices"][0]["epsilon"]


def test_a_draw_larger_than_all_pairs_is_all_pairs(service: ServiceProcess) -> None:
    found = asked(service, {"model.embed_tokens.weight": drawn(3)}, pairs={"mode": "sampled"})
    assert found["result"]["matrices"][0]["cosine"]["mode"] == "exact"


def test_no_pairs_is_the_same_question_as_none_said(service: ServiceProcess) -> None:
    tensors = {"model.embed_tokens.weight": drawn(4)}
    first, second = asked(service, tensors), asked(service, tensors, pairs={"mode": "none"})
    assert second["deduplicated"] or second["spec"] == first["spec"]
    cosine = first["result"]["matrices"][0]["cosine"]
    assert (cosine["mode"], cosine["histogram"], cosine["max"]) == ("moments", None, None)
    answer = service.http.get(f"/v1/analyses/{first['id']}/histogram")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_measured")
    assert "pairs" in answer.json()["hint"]
    picture = service.http.get(f"/v1/analyses/{first['id']}/plot.svg")
    assert "certainly exist" in picture.text


def test_separate_embeddings_are_aligned_token_by_token(service: ServiceProcess) -> None:
    W, V = drawn(5), drawn(5) + drawn(6)
    found = asked(service, {"model.embed_tokens.weight": W, "lm_head.weight": V})
    aligned = torch.nn.functional.cosine_similarity(W.double(), V.double(), dim=1).numpy()
    alignment = found["result"]["alignment"]
    assert alignment["tokens"] == ROWS
    assert (alignment["mean"], alignment["std"]) == pytest.approx((aligned.mean(), aligned.std()))
    plots = [
        service.http.get(f"/v1/analyses/{found['id']}/plot.svg?role={m['role']}") for m in found["result"]["matrices"]
    ]
    assert [plot.status_code for plot in plots] == [200, 200]


@pytest.mark.parametrize(
    ("pairs", "pointer"),
    [
        ({"mode": "all"}, "/pairs/mode"),
        ({"mode": "exact", "bins": 1}, "/pairs/bins"),
        ({"mode": "sampled", "samples": 10**12}, "/pairs/samples"),
        ({"mode": "sampled", "seed": -1}, "/pairs/seed"),
        ({"mode": "sampled", "size": 3}, "/pairs/size"),
        ("exact", "/pairs"),
    ],
)
def test_a_wrong_choice_of_pairs_is_named(service: ServiceProcess, pairs: object, pointer: str) -> None:
    body = {"kind": "embedding", "source": {"type": "path", "path": "x"}, "pairs": pairs}
    answer = service.http.post("/v1/analyses", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_what_is_not_there_is_a_404_with_a_reason(service: ServiceProcess) -> None:
    found = asked(service, {"model.embed_tokens.weight": drawn(7)})
    answer = service.http.get(f"/v1/analyses/{found['id']}/plot.svg?role=output_embedding")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_measured")
    assert service.http.get(f"/v1/analyses/{found['id']}/plot.svg?role=middle").status_code == 422
    assert service.http.get("/v1/analyses/an_none/histogram").status_code == 404
