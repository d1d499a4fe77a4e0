"""The embedding analysis: from a source to the numbers of its vocabulary matrices."""

import hashlib
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gramian.errors import GeometryError, PathSourceDisabled, SourceChanged, TooFewRows
from gramian.geometry.alignment import alignment
from gramian.geometry.measurement import MatrixGeometry, measure_matrix
from gramian.settings import Settings
from gramian.specs import EmbeddingSpec
from gramian.storage.blobs import BlobStore
from gramian.storage.jobs import Outcome
from gramian.storage.tables import MatrixRow
from gramian.weights.hub import HubIdentity, HubSource
from gramian.weights.paths import PathIdentity, check_unchanged
from gramian.weights.sources import FileSource, WeightSource, open_path
from gramian.weights.tensors import StoredMatrix
from gramian.weights.vocabulary import Role, TensorNames, Vocabulary, read_vocabulary
from workers.devices import BLOCK_BYTES, blocks_on, choose_device, device_name
from workers.matrix_rows import Origin, matrix_row
from workers.pairs import look_at_pairs, pairs_to_see
from workers.progress import Progress
from workers.row_choice import NOTHING, ChosenRows, LeftOut, rows_left_out, wanted_tokens
from workers.runs import Run

#: Parts of the whole, for the progress bar: fetching's where bytes come over a network, and of a matrix the pairs'.
FETCH_SHARE = 0.5
PAIRS_SHARE = 0.6


def measure_embedding(run: Run[EmbeddingSpec]) -> Outcome:
    """Read the vocabulary matrices and measure each; everything that the finished analysis stores."""
    spec, identity, progress = run.spec, run.identity, run.progress
    device = choose_device(run.settings, required=spec.device)
    fetch_share = FETCH_SHARE if spec.source.type == "hub" else 0.0
    progress("resolve", 0.0, "reading the checkpoint's header")
    with open_source(spec, identity, settings=run.settings, spool=run.spool) as source:
        vocabulary = read_vocabulary(source, tensors=_names(spec), progress=_fetching(progress, fetch_share))
        tied = vocabulary.tying.finding not in ("untied", "not_compared")
        tokens = wanted_tokens(spec, source, vocabulary)
        left_out = rows_left_out(spec, vocabulary, tokens)
        digests: dict[str, str] = identity.get("tensors", {})  # an upload's were made when it arrived
        matrices = []
        for position, (role, matrix) in enumerate(vocabulary.matrices):
            left = left_out.get(role, NOTHING)
            chosen = ChosenRows(matrix, left.rows)
            share = (1.0 - fetch_share) / len(vocabulary.matrices)
            start = fetch_share + position * share
            measured = start + share * (1 - PAIRS_SHARE if spec.pairs else 1)
            with ThreadPoolExecutor(1) as beside:
                hashing = None if matrix.name in digests else beside.submit(matrix.sha256)
                geometry = measure_within_memory(chosen, device, _measuring(progress, matrix, start, measured))
                progress("digest", measured, f"{matrix.name}: hashing the bytes read")
                digest = f"sha256:{hashing.result() if hashing else digests[matrix.name]}"
            expected = pairs_to_see(spec.pairs, geometry.moments.pairs)
            watch = _comparing(progress, matrix, expected, measured, start + share)
            pairs = look_at_pairs(spec.pairs, chosen, geometry, device, watch)
            origin = Origin(run.id, position, role, matrix, digest, tied=tied, left_out=left, tokens=tokens)
            matrices.append(matrix_row(origin, geometry, pairs))
        aligned = _aligned(vocabulary, left_out, partial(progress, "alignment", 1.0))
        bytes_fetched = source.bytes_fetched
        if spec.source.type == "path":
            check_unchanged(_root(run.settings), PathIdentity(**identity))
    progress.close()
    return Outcome(
        matrices=matrices,
        digest=_digest(identity, matrices),
        tying={name: getattr(vocabulary.tying, name) for name in ("flag", "finding", "reason")},
        alignment=aligned,
        warnings=_warnings(vocabulary),
        device=device_name(device),
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


def measure_within_memory(
    matrix: ChosenRows, device: torch.device, watch: Callable[[str, float], None]
) -> MatrixGeometry:
    """The chosen rows' numbers; once more in blocks of half the size if a GPU's memory did not hold the first."""
    block_bytes = BLOCK_BYTES[device.type]
    try:
        return _measured_in_blocks(matrix, device, watch, block_bytes)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
    return _measured_in_blocks(matrix, device, watch, block_bytes // 2)


def _measured_in_blocks(
    matrix: ChosenRows, device: torch.device, watch: Callable[[str, float], None], block_bytes: int
) -> MatrixGeometry:
    blocks = blocks_on(device, matrix, block_bytes=block_bytes)
    try:
        return measure_matrix(blocks, rows=matrix.rows, dim=matrix.dim, progress=watch)
    except TooFewRows as error:
        raise error.of_which_left_out(len(matrix.left_out)) from None


def _aligned(
    vocabulary: Vocabulary, left_out: Mapping[Role, LeftOut], say: Callable[[str], None]
) -> dict[str, Any] | None:
    """Each token's two vectors compared, where both embeddings were analysed and have the same rows."""
    matrices = [ChosenRows(matrix, left_out.get(role, NOTHING).rows) for role, matrix in vocabulary.matrices]
    if len(matrices) != 2 or (matrices[0].rows, matrices[0].dim) != (matrices[1].rows, matrices[1].dim):
        return None
    say("comparing each token's two vectors")
    rows = max(1, BLOCK_BYTES["cpu"] // (8 * matrices[0].dim))
    try:
        return asdict(alignment(*(matrix.blocks(rows) for matrix in matrices), dim=matrices[0].dim))
    except GeometryError:  # no token has a direction in both
        return None


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


def _fetching(progress: Progress, share: float) -> Callable[[int, int], None]:
    def watch(done: int, total: int) -> None:
        words = f"fetched {done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
        progress("fetch", share * done / max(total, 1), words, done=done, total=total, unit="bytes")

    return watch


def _measuring(progress: Progress, matrix: StoredMatrix, start: float, end: float) -> Callable[[str, float], None]:
    halves = {"gram": 0.0, "rows": 0.5}

    def watch(stage: str, fraction: float) -> None:
        rows = math.floor(fraction * matrix.rows)
        words = f"{matrix.name}: {rows:,} of {matrix.rows:,} rows"
        whole = start + (end - start) * (halves[stage] + fraction / 2)
        progress(stage, whole, words, done=rows, total=matrix.rows, unit="rows")

    return watch


def _comparing(
    progress: Progress, matrix: StoredMatrix, pairs: int, start: float, end: float
) -> Callable[[float], None]:
    def watch(fraction: float) -> None:
        words = f"{matrix.name}: {fraction:.0%} of the pairs looked at"
        done = math.floor(fraction * pairs)
        progress("pairs", start + (end - start) * fraction, words, done=done, total=pairs, unit="pairs")

    return watch
