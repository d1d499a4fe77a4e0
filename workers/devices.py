"""Where a worker computes, and how a stored matrix gets there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from gramian.errors import DeviceMissing
from gramian.geometry.pairs import RowRange
from gramian.geometry.parts import RowParts, part_ranges
from gramian.geometry.rows import RowBlocks
from gramian.queues import Device
from gramian.settings import Settings

# Of float32 rows read at once: enough for disk and product alike, little in memory; a GPU wants more at a time.
BLOCK_BYTES = {"cpu": 4 * 1024**2, "cuda": 256 * 1024**2}


class Matrix(Protocol):
    """Rows that can be read from any place, as often as wanted."""

    @property
    def rows(self) -> int: ...

    @property
    def dim(self) -> int: ...

    def blocks(self, rows_per_block: int, *, start: int = 0, stop: int | None = None) -> RowBlocks: ...


def choose_device(settings: Settings, *, required: Device | None = None) -> torch.device:
    """The device that the analysis requires or the settings name; `auto` takes a GPU where there is one."""
    wanted = settings.device
    if required == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        wanted = "cpu"
    elif wanted == "auto":
        wanted = "cuda"
    device = torch.device(wanted)
    if required is not None and device.type != required:
        raise DeviceMissing(f"the analysis requires {required}, this worker computes on {device.type}")
    if device.type == "cuda":
        torch.cuda.set_device(device)  # one worker a GPU: nothing of this process goes to another
    return device


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def blocks_on(device: torch.device, matrix: Matrix, *, block_bytes: int) -> RowParts:
    """The matrix as blocks on the device; in parts for the cores, whole for a GPU."""
    rows = _rows(matrix, block_bytes)
    ranges = part_ranges(matrix.rows, matrix.dim) if device.type == "cpu" else [(0, matrix.rows)]
    return RowParts([_Blocks(matrix.blocks(rows, start=start, stop=stop), device) for start, stop in ranges])


def row_range_on(device: torch.device, matrix: Matrix) -> RowRange:
    """Any range of the matrix's rows as blocks on the device."""
    rows = _rows(matrix, BLOCK_BYTES[device.type])
    return lambda start, stop: _Blocks(matrix.blocks(rows, start=start, stop=stop), device)


def _rows(matrix: Matrix, block_bytes: int) -> int:
    return max(1, block_bytes // (4 * matrix.dim))


@dataclass(frozen=True)
class _Blocks:
    """Rows of a stored matrix on the device; every iteration reads them again."""

    stored: RowBlocks
    device: torch.device

    def __iter__(self) -> Iterator[torch.Tensor]:
        for block in self.stored:
            yield torch.as_tensor(block).to(self.device)
