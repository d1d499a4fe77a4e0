"""Row blocks: the numbers, their order, and the memory they take."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

from gramian.errors import SourceChanged
from gramian.weights.formats import inspect_file
from gramian.weights.tensors import StoredMatrix
from tests.weights.making import entry, raw_safetensors

Write = Callable[..., Path]
ROWS, DIM = 37, 5


def stored(write: Write, values: torch.Tensor, name: str = "model.safetensors") -> StoredMatrix:
    path = write(save({"pad": torch.zeros(3, dtype=torch.uint8), "m": values.contiguous()}), name)
    header = inspect_file(path)
    return header.matrix(next(t for t in header.tensors if t.name == "m"), path)


@pytest.fixture
def values() -> torch.Tensor:
    return torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 1e3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows_per_block", [1, 8, 37, 1000])
def test_blocks_hold_the_rows_as_torch_widens_them(
    write: Write, values: torch.Tensor, dtype: torch.dtype, rows_per_block: int
) -> None:
    values = values.to(dtype)
    blocks = stored(write, values).blocks(rows_per_block)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    for _ in range(2):  # a second pass sees the same rows
        found = list(blocks)
        assert len(found) == len(blocks)
        assert all(block.flags.c_contiguous and block.shape[1] == DIM for block in found)
        assert {block.dtype.name for block in found} == {str(wide).removeprefix("torch.")}
        assert np.array_equal(np.concatenate(found), values.to(wide).numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("start", "stop"), [(0, 37), (0, 20), (20, 37), (9, 10), (12, 12), (30, None)])
def test_blocks_of_a_range_hold_its_rows_alone(
    write: Write, values: torch.Tensor, dtype: torch.dtype, start: int, stop: int | None
) -> None:
    values = values.to(dtype)
    blocks = stored(write, values).blocks(8, start=start, stop=stop)
    found = list(blocks)
    assert len(found) == len(blocks)
    rows = np.concatenate([np.empty((0, DIM), np.float32), *found])
    assert np.array_equal(rows, values[start:stop].to(torch.float32).numpy())


def test_every_bfloat16_bit_pattern_is_decoded_as_torch_does(write: Write) -> None:
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.uint16).reshape(256, 256)
    values = bits.view(torch.bfloat16)
    (block,) = stored(write, values).blocks(256)
    assert np.array_equal(block.view(np.uint32), values.to(torch.float32).numpy().view(np.uint32))


def test_half_precision_extremes_survive(write: Write) -> None:
    values = torch.tensor([[6e-8, 65504.0], [float("inf"), float("nan")]], dtype=torch.float16)
    (block,) = stored(write, values).blocks(2)
    assert block[0, 0] == 2.0**-24
    assert block[0, 1] == 65504
    assert np.isinf(block[1, 0])
    assert np.isnan(block[1, 1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_digest_is_that_of_the_stored_bytes(write: Write, values: torch.Tensor, dtype: torch.dtype) -> None:
    values = values.to(dtype)
    raw = values.view(torch.uint8).numpy().tobytes()
    assert stored(write, values).sha256() == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<f2", ">f8", ">f4", ">f2"])
def test_npy_arrays_of_any_order_give_the_same_rows_and_digest(tmp_path: Path, dtype: str, order: str) -> None:
    values = np.random.default_rng(2).normal(size=(ROWS, DIM)).astype(dtype)
    path = tmp_path / "m.npy"
    np.save(path, np.asarray(values, order=order))
    header = inspect_file(path)
    matrix = header.matrix(header.tensors[0], path)
    native = values.astype(dtype.replace(">", "<"))
    for rows_per_block in (1, 8, 100):
        found = list(matrix.blocks(rows_per_block))
        assert all(block.flags.c_contiguous and block.dtype.isnative for block in found)
        assert np.array_equal(np.concatenate(found), native.astype(np.float64 if "8" in dtype else np.float32))
    assert matrix.sha256() == hashlib.sha256(native.tobytes()).hexdigest()


def test_equal_numbers_are_recognised_in_any_order_and_precision(write: Write, tmp_path: Path) -> None:
    values = torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    values[0, 0] = float("nan")
    one = stored(write, values, "a.safetensors")
    assert one.same_bytes(one)
    assert one.same_bytes(stored(write, values, "b.safetensors"))
    assert one.same_bytes(stored(write, values.float(), "c.safetensors"))
    np.save(tmp_path / "d.npy", np.asfortranarray(values.double().numpy()))
    header = inspect_file(tmp_path / "d.npy")
    assert one.same_bytes(header.matrix(header.tensors[0], tmp_path / "d.npy"))


def test_one_differing_number_anywhere_is_seen(write: Write, values: torch.Tensor) -> None:
    one = stored(write, values, "a.safetensors")
    for at in ((0, 0), (ROWS - 1, DIM - 1)):
        other = values.clone()
        other[at] = 0
        assert not one.same_bytes(stored(write, other, "b.safetensors"))
        assert not one.same_bytes(stored(write, other.float(), "c.safetensors"))
    assert not one.same_bytes(stored(write, values[1:], "d.safetensors"))


def test_a_file_that_shrinks_under_the_reader_is_an_error_not_a_crash(write: Write, values: torch.Tensor) -> None:
    matrix = stored(write, values)
    blocks = iter(matrix.blocks(1))
    next(blocks)
    with matrix.path.open("r+b") as file:
        file.truncate(matrix.offset + 60)
    with pytest.raises(SourceChanged):
        list(blocks)


def test_no_rows_at_a_time_is_refused(write: Write, values: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        stored(write, values).blocks(0)


PROBE = """
import sys
from pathlib import Path
import numpy
from gramian.weights.formats import inspect_file
def resident():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    fields = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return fields["Private_Dirty"] + fields["Private_Clean"]
path = Path(sys.argv[1])
header = inspect_file(path)
matrix = header.matrix(header.tensors[0], path)
rows = int(sys.argv[2])
for block in matrix.blocks(16): break
before, peak, total = resident(), 0, 0
for block in matrix.blocks(rows):
    total += len(block)
    peak = max(peak, resident())
assert total == matrix.rows
print(peak - before)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_streaming_a_large_matrix_keeps_a_few_blocks_in_memory(tmp_path: Path, dtype: str) -> None:
    nbytes, dim, width = 256 * 2**20, 1024, {"F32": 4, "BF16": 2}[dtype]
    path = tmp_path / "sparse.safetensors"
    header = json.dumps({"m": entry(dtype, [nbytes // dim // width, dim], 0, nbytes)}).encode()
    path.write_bytes(raw_safetensors(header))
    with path.open("r+b") as file:
        file.truncate(8 + len(header) + nbytes)
    rows = 2048
    result = subprocess.run(
        [sys.executable, "-c", PROBE, str(path), str(rows)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(result.stdout) * 1024 < 4 * rows * dim * 4
