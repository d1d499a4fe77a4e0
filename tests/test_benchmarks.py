import io

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.numpy import load, save

from benchmarks.brute_force import block_by_block, published_way
from benchmarks.main import NAMES
from benchmarks.report import Series, goals, judge, show
from benchmarks.warm_service import remarked_copy
from gramian.geometry.similarity import cosine_moments
from tests.geometry import oracles

ROWS = np.random.default_rng(5).standard_normal((2500, 48)).astype(np.float32) + np.float32(0.3)


@pytest.mark.parametrize("way", [published_way, block_by_block])
def test_brute_force_and_gramian_agree_with_every_pair_in_float64(way):
    found, expected = way(ROWS), oracles.all_pairs(ROWS)
    assert found.pairs == 2500 * 2499 // 2
    assert found.mean == pytest.approx(expected.mean, rel=1e-5)
    assert found.std == pytest.approx(expected.std, rel=1e-5)
    assert found.epsilon == pytest.approx(cosine_moments([torch.from_numpy(ROWS)], dim=48).epsilon, rel=1e-6)


def test_a_remarked_copy_holds_the_same_tensors_under_another_header(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(save({"a.weight": ROWS, "b.weight": ROWS[:3]}, metadata={"format": "pt"}))
    first, second = remarked_copy(file, 1), remarked_copy(file, 2)
    assert first != second
    assert (load(first)["a.weight"] == ROWS).all()
    assert (load(second)["b.weight"] == ROWS[:3]).all()


def series(name: str, *seconds: float, mb: float) -> Series:
    return Series(NAMES[name], seconds, [int(mb * 1e6)] * len(seconds), [{"step": second} for second in seconds])


def printed(service_seconds: float) -> tuple[str, bool]:
    published = series("published", 20.0, 22.0, 30.0, mb=5800)
    moments = series("moments", 0.1, 0.11, 0.5, mb=280)
    service = series("service", service_seconds, mb=800)
    console = Console(record=True, width=80, file=io.StringIO())
    show(console, [published, moments, service], against=published)
    met = judge(console, goals(published=published, service=service, moments=moments))
    return console.export_text(), met


def test_the_table_shows_medians_ranges_and_ratios_of_medians():
    text, met = printed(service_seconds=0.4)
    assert met
    assert "22.000 (20.000 to 30.000)" in text
    assert "200.0×" in text  # 22 / 0.11
    assert "55.0 times faster from POST to succeeded" in text
    assert "7.2 times less memory" in text
    assert f"{NAMES['moments']}: step 0.110 s" in text


def test_a_ratio_that_falls_short_is_named_and_not_met():
    text, met = printed(service_seconds=0.5)
    assert not met
    assert "missed: 44.0 times faster from POST to succeeded, every metric on; at least 50 wanted" in text
