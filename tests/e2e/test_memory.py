"""The matrix streams: what a worker holds does not grow with it."""

import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.servers.gramian_service import ServiceProcess

pytestmark = pytest.mark.e2e

ROWS, DIM = 131072, 1024
MIB = 1024**2


def write_bfloat16(path: Path) -> int:
    """Random unit-scale bfloat16 rows in a safetensors file, written block by block; the tensor's size in bytes."""
    size = 2 * ROWS * DIM
    header = f'{{"wte.weight":{{"dtype":"BF16","shape":[{ROWS},{DIM}],"data_offsets":[0,{size}]}}}}'.encode()
    random = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for _ in range(ROWS // 4096):
            values = random.standard_normal((4096, DIM), dtype=np.float32)
            file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return size


def anonymous_bytes(process: psutil.Process) -> int:
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Anonymous:"))


def test_a_worker_holds_blocks_and_sums_never_the_matrix(path_root: Path, tmp_path: Path) -> None:
    size = write_bfloat16(path_root / "large.safetensors")
    service = ServiceProcess(tmp_path, env={"GRAMIAN_PATH_ROOT": str(path_root)})
    try:
        worker = next(process for process in service.family() if process.cmdline()[-2:] == ["-m", "workers"])
        np.save(path_root / "tiny.npy", np.eye(4, dtype=np.float32))
        assert service.analyse({"type": "path", "path": "tiny.npy"})["status"] == "succeeded"
        idle = anonymous_bytes(worker)  # less than the child of a tiny job, which starts as its copy
        source = {"type": "path", "path": "large.safetensors"}
        asked = service.http.post("/v1/analyses", json={"kind": "embedding", "source": source}).json()
        peak = 0
        deadline = time.monotonic() + 150
        while (found := service.http.get(f"/v1/analyses/{asked['id']}").json())["status"] in ("queued", "running"):
            assert time.monotonic() < deadline
            for child in worker.children():
                try:
                    if child.cmdline()[-2:] == ["-m", "workers"]:
                        peak = max(peak, anonymous_bytes(child))
                except (OSError, StopIteration, psutil.Error):
                    continue  # it ended between two looks
            time.sleep(0.02)
        assert found["status"] == "succeeded", found["error"]
        assert found["result"]["matrices"][0]["epsilon"]["excess"] == pytest.approx(1.0, rel=0.01)
        assert peak > idle
        assert peak - idle < 240 * MIB < size
    finally:
        assert service.stop() == 0
        (path_root / "large.safetensors").unlink()
