"""The embedding analysis: from a source to the numbers of its vocabulary matrices."""

import hashlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gramian.analyses import EmbeddingSpec
from gramian.answers import matrix_capacity
from gramian.errors import DeviceMissing, PathSourceDisabled, SourceChanged
from gramian.geometry.capacity import vocabulary_directions
from gramian.geometry.measurement import MatrixGeometry, RankedRow, measure_matrix
from gramian.geometry.parts import RowParts, part_ranges
from gramian.queues import Device
from gramian.settings import Settings
from gramian.storage.blobs import BlobStore
from gramian.storage.jobs import Outcome
from gramian.storage.tables import MatrixRow
from gramian.weights.hub import HubIdentity, HubSource
from gramian.weights.paths import PathIdentity, check_unchanged
from gramian.weights.sources import FileSource, WeightSource, open_path
from gramian.weights.tensors import RowBlocks, StoredMatrix
from gramian.weights.vocabulary import TensorNames, Vocabulary, read_vocabulary
from workers.progress import Progress

# Of float32 rows read at once: enough for disk and product alike, little in memory; a GPU wants more at a time.
BLOCK_BYTES = {"cpu": 4 * 1024**2, "cuda": 256 * 1024**2}
LISTED_ROWS = 100  # rows left out that are named; all are counted

#: Fetching's part of the whole, for the progress bar, where bytes come over a network.
FETCH_SHARE = 0.5


def measure_embedding(
    analysis_id: str,
    spec: EmbeddingSpec,
    identity: dict[str, Any],
    *,
    settings: Settings,
    spool: Path,
    progress: Progress,
) -> Outcome:
    """Read the vocabulary matrices and measure each; everything that the finished analysis stores."""
    device = choose_device(settings, required=spec.device)
    fetch_share = FETCH_SHARE if spec.source.type == "hub" else 0.0
    progress("resolve", 0.0, "reading the checkpoint's header")
    with open_source(spec, identity, settings=settings, spool=spool) as source:
        vocabulary = read_vocabulary(source, tensors=_names(spec), progress=_fetching(progress, fetch_share))
        tied = vocabulary.tying.finding not in ("untied", "not_compared")
        digests: dict[str, str] = identity.get("tensors", {})  # an upload's were made when it arrived
        matrices = []
        for position, (role, matrix) in enumerate(vocabulary.matrices):
            share = (1.0 - fetch_share) / len(vocabulary.matrices)
            watch = _measuring(progress, matrix, start=fetch_share + position * share, share=share)
            with ThreadPoolExecutor(1) as beside:
                hashing = None if matrix.name in digests else beside.submit(matrix.sha256)
                geometry = measure_within_memory(matrix, device, watch)
                progress("digest", fetch_share + (position + 1) * share, f"{matrix.name}: hashing the bytes read")
                digest = f"sha256:{hashing.result() if hashing else digests[matrix.name]}"
            matrices.append(matrix_row(analysis_id, position, role, matrix, geometry, digest=digest, tied=tied))
        bytes_fetched = source.bytes_fetched
        if spec.source.type == "path":
            check_unchanged(_root(settings), PathIdentity(**identity))
    progress.close()
    return Outcome(
        matrices=matrices,
        digest=_digest(identity, matrices),
        tying={name: getattr(vocabulary.tying, name) for name in ("flag", "finding", "reason")},
        warnings=_warnings(vocabulary),
        device=_device_name(device),
        torch_version=str(torch.__version__),
        seconds=progress.seconds,
        bytes_fetched=bytes_fetched,
    )


def open_source(spec: EmbeddingSpec, identity: dict[str, Any], *, settings: Settings, spool: Path) -> WeightSource:
    """The weights that were meant when the analysis was accepted."""
    match spec.source.type:
        case "hub":
            return HubSource(
                HubIdentity(**identity),
                endpoint=settings.hf_endpoint,
                token=settings.hub_token or False,
                spool_dir=spool,
            )
        case "upload":
            path = BlobStore(settings.data_dir / "blobs").path(identity["sha256"])
            if not path.is_file():
                raise SourceChanged("the upload was deleted before it was read", hint="upload the file again")
            return FileSource(path, filename=identity["filename"])
        case "path":
            return open_path(_root(settings), PathIdentity(**identity))


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


def measure_within_memory(
    matrix: StoredMatrix, device: torch.device, watch: Callable[[str, float], None]
) -> MatrixGeometry:
    """The matrix's numbers; once more in blocks of half the size if a GPU's memory did not hold the first."""
    block_bytes = BLOCK_BYTES[device.type]
    try:
        return _measured_in_blocks(matrix, device, watch, block_bytes)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
    return _measured_in_blocks(matrix, device, watch, block_bytes // 2)


def _measured_in_blocks(
    matrix: StoredMatrix, device: torch.device, watch: Callable[[str, float], None], block_bytes: int
) -> MatrixGeometry:
    blocks = _blocks(matrix, device, block_bytes)
    return measure_matrix(blocks, rows=matrix.rows, dim=matrix.dim, progress=watch)


def _blocks(matrix: StoredMatrix, device: torch.device, block_bytes: int) -> RowParts:
    """The matrix as blocks on the device; in parts for the cores, whole for a GPU."""
    rows = max(1, block_bytes // (4 * matrix.dim))
    ranges = part_ranges(matrix.rows, matrix.dim) if device.type == "cpu" else [(0, matrix.rows)]
    return RowParts([_Blocks(matrix.blocks(rows, start=start, stop=stop), device) for start, stop in ranges])


@dataclass(frozen=True)
class _Blocks:
    """Rows of a stored matrix on the device; every iteration reads them again."""

    stored: RowBlocks
    device: torch.device

    def __iter__(self) -> Iterator[torch.Tensor]:
        for block in self.stored:
            yield torch.from_numpy(block).to(self.device)


def matrix_row(
    analysis_id: str,
    position: int,
    role: str,
    matrix: StoredMatrix,
    geometry: MatrixGeometry,
    *,
    digest: str,
    tied: bool,
) -> MatrixRow:
    """The measured numbers as they are stored."""
    moments, errors, census = geometry.moments, geometry.standard_errors, geometry.census
    vocabulary = vocabulary_directions(census.used, tied=tied)
    capacity = matrix_capacity(matrix.dim, moments.epsilon, epsilon_se=errors.epsilon, vocabulary=vocabulary)
    low, high = capacity["interval_log10"] or (None, None)
    return MatrixRow(
        analysis_id=analysis_id,
        role=role,
        position=position,
        tensor=matrix.name,
        dtype=matrix.dtype,
        digest=digest,
        rows=matrix.rows,
        dim=matrix.dim,
        rows_used=census.used,
        rows_zero=census.zero,
        rows_nonfinite=census.nonfinite,
        pairs=moments.pairs,
        cosine_mean=moments.mean,
        cosine_std=moments.std,
        cosine_mean_square=moments.mean_square,
        cosine_mean_se=errors.mean,
        cosine_std_se=errors.std,
        epsilon=moments.epsilon,
        epsilon_se=errors.epsilon,
        epsilon_random=geometry.random_epsilon,
        epsilon_excess=geometry.epsilon_excess,
        epsilon_class=geometry.epsilon_class,
        capacity_status=capacity["status"],
        capacity_log10=capacity["log10_directions"],
        capacity_log10_low=low,
        capacity_log10_high=high,
        vocabulary_directions=vocabulary,
        norm_mean=geometry.norms.mean,
        norm_std=geometry.norms.std,
        norm_min=geometry.norms.min,
        norm_max=geometry.norms.max,
        norm_median=geometry.norms.median,
        represented_fraction=geometry.represented_fraction,
        welch_floor=geometry.welch_floor,
        overlap_times_dim=geometry.overlap_times_dim,
        effective_rank=geometry.effective_rank,
        feature_dimensionality=geometry.feature_dimensionality,
        regime=geometry.regime.name,
        details={
            "capacity": capacity,
            "regime_basis": {
                "represented_fraction": geometry.regime.represented_fraction,
                "dims_per_row": geometry.regime.dims_per_row,
                "overlap_times_dim": geometry.regime.overlap_times_dim,
            },
            "hygiene": {
                "zero_rows": census.zero_rows[:LISTED_ROWS].tolist(),
                "nonfinite_rows": census.nonfinite_rows[:LISTED_ROWS].tolist(),
                "listed_at_most": LISTED_ROWS,
                "products": geometry.products,
            },
            "tokens": {
                "most_overlapping": _ranked(geometry.most_overlapping),
                "least_overlapping": _ranked(geometry.least_overlapping),
            },
        },
    )


def _ranked(rows: tuple[RankedRow, ...]) -> list[dict[str, Any]]:
    return [{"row": row.row, "mean_square": row.mean_square, "mean": row.mean} for row in rows]


def _names(spec: EmbeddingSpec) -> TensorNames | None:
    return TensorNames(input=spec.tensors.input, output=spec.tensors.output) if spec.tensors else None


def _root(settings: Settings) -> Path:
    if settings.path_root is None:
        raise PathSourceDisabled(
            "this worker reads no paths", hint="the operator sets GRAMIAN_PATH_ROOT for API and workers alike"
        )
    return settings.path_root.resolve()


def _digest(identity: dict[str, Any], matrices: list[MatrixRow]) -> str:
    """Of the uploaded file; elsewhere of the bytes that were read."""
    if "sha256" in identity:
        return f"sha256:{identity['sha256']}"
    if len(matrices) == 1:
        return matrices[0].digest
    return "sha256:" + hashlib.sha256("\n".join(matrix.digest for matrix in matrices).encode()).hexdigest()


def _warnings(vocabulary: Vocabulary) -> list[dict[str, str]]:
    return [{"code": code, "message": message} for code, message in vocabulary.warnings]


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _fetching(progress: Progress, share: float) -> Callable[[int, int], None]:
    def watch(done: int, total: int) -> None:
        words = f"fetched {done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
        progress("fetch", share * done / max(total, 1), words, done=done, total=total, unit="bytes")

    return watch


def _measuring(progress: Progress, matrix: StoredMatrix, *, start: float, share: float) -> Callable[[str, float], None]:
    halves = {"gram": 0.0, "rows": 0.5}

    def watch(stage: str, fraction: float) -> None:
        rows = math.floor(fraction * matrix.rows)
        words = f"{matrix.name}: {rows:,} of {matrix.rows:,} rows"
        whole = start + share * (halves[stage] + fraction / 2)
        progress(stage, whole, words, done=rows, total=matrix.rows, unit="rows")

    return watch
