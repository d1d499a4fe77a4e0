"""From a source to its vocabulary matrices: choose the tensors, bring them here, find out whether they are tied."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gramian.errors import InvalidWeights
from gramian.weights.checkpoint import Checkpoint
from gramian.weights.names import (
    Chosen,
    choose_tensors,
    is_input_name,
    is_output_name,
    shortlist,
)
from gramian.weights.sources import Progress, WeightSource
from gramian.weights.strict_json import shorten
from gramian.weights.tensors import StoredMatrix, TensorInfo
from gramian.weights.ties import Tying, decide_tying

Role = Literal["input_embedding", "output_embedding"]


@dataclass(frozen=True)
class TensorNames:
    """Names given by the caller; what is None is not analysed if the other is named."""

    input: str | None = None
    output: str | None = None


@dataclass(frozen=True)
class Vocabulary:
    """The matrices to analyse with their roles, how they relate, and what a reader should know about them."""

    matrices: tuple[tuple[Role, StoredMatrix], ...]
    tying: Tying
    warnings: tuple[tuple[str, str], ...]  # (code, message)
    config: Mapping[str, Any] | None


def read_vocabulary(
    source: WeightSource, *, tensors: TensorNames | None = None, progress: Progress | None = None
) -> Vocabulary:
    """The vocabulary of a source; the matrices are valid until the source is closed.

    A tied pair is one matrix in the role of the input. `progress` counts the bytes of all matrices together.
    """
    asked = tensors or TensorNames()
    checkpoint = source.checkpoint()
    chosen = _choose(checkpoint, asked)
    distinct = list(dict.fromkeys(tensor for tensor in (chosen.input, chosen.output) if tensor is not None))
    stored = dict(zip(distinct, _fetch(source, distinct, progress), strict=True))

    equal = None
    if chosen.input is not None and chosen.output is not None:
        equal = stored[chosen.input].same_bytes(stored[chosen.output])
    tying = decide_tying(
        input=chosen.input,
        output=chosen.output,
        equal=equal,
        config=checkpoint.config,
        other=_other_side(checkpoint, chosen, asked),
    )
    matrices: list[tuple[Role, StoredMatrix]] = []
    if chosen.input is not None:
        matrices.append(("input_embedding", stored[chosen.input]))
    if chosen.output is not None and tying.finding != "tied":
        matrices.append(("output_embedding", stored[chosen.output]))
    return Vocabulary(tuple(matrices), tying, tuple(_warnings(chosen, tying, checkpoint)), checkpoint.config)


def _choose(checkpoint: Checkpoint, asked: TensorNames) -> Chosen:
    wanted = shortlist(checkpoint.names, input=asked.input, output=asked.output)
    described = checkpoint.describe(wanted or checkpoint.names)
    lost = checkpoint.lost
    if lost:
        # An index may name an input matrix that was dropped because the head holds it; nothing else may be missing.
        head_is_there = any(is_output_name(tensor.name) for tensor in described)
        explicit = {asked.input, asked.output} & lost.keys()
        if explicit or not head_is_there or not all(is_input_name(name) for name in lost):
            name, file = next(iter(sorted(lost.items(), key=lambda item: item[0] not in explicit)))
            raise InvalidWeights(
                f"the index places tensor {shorten(name)} in {file}, whose header does not list it",
                hint="the index and the shards belong to different versions: download both again",
            )
    return choose_tensors(described, input=asked.input, output=asked.output)


def _fetch(source: WeightSource, tensors: Sequence[TensorInfo], progress: Progress | None) -> Iterator[StoredMatrix]:
    checkpoint = source.checkpoint()
    sizes = [checkpoint.header(checkpoint.file_of(tensor.name)).spans[tensor.name].nbytes for tensor in tensors]
    before, total = 0, sum(sizes)
    for tensor, size in zip(tensors, sizes, strict=True):
        shifted = None if progress is None else _shifted(progress, before, total)
        yield source.fetch(tensor, progress=shifted)
        before += size


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)


def _other_side(checkpoint: Checkpoint, chosen: Chosen, asked: TensorNames) -> str | None:
    """A stored matrix of the role that an explicit choice left out."""
    if (asked.input is None) == (asked.output is None):
        return None
    known = is_output_name if chosen.input is not None else is_input_name
    named = {asked.input, asked.output}
    return next((name for name in checkpoint.names if known(name) and name not in named), None)


def _warnings(chosen: Chosen, tying: Tying, checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    if tying.contradiction:
        yield "tying_flag_disagrees", tying.contradiction
    if chosen.input is not None and chosen.output is not None and chosen.input.shape != chosen.output.shape:
        yield (
            "vocabulary_shapes_differ",
            f"{chosen.input} and {chosen.output} have different shapes; further rows have no counterpart",
        )
    for name, file in checkpoint.lost.items():
        yield "index_disagrees", f"the index places tensor {shorten(name)} in {file}, which does not hold it"
