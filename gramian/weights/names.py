"""Which tensor is the vocabulary: the names that model families give their two matrices, and how one is chosen.

The tables hold module paths as they stand in checkpoints, the more specific before the more general. Matching is on
the whole path, so copies in multi-token-prediction layers (`model.layers.61.embed_tokens`), per-layer tables
(`embed_tokens_per_layer`), position, token-type and vision tables are never taken for the vocabulary.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType

from gramian.errors import TensorNotFound, UnsupportedDtype
from gramian.weights.formats.header import check_matrix
from gramian.weights.tensors import READABLE_DTYPES, TensorInfo, largest_matrices

MAX_CANDIDATES = 10

INPUT_NAMES = (
    # decoders of the Llama line, alone and inside multimodal models
    "model.embed_tokens",
    "model.language_model.embed_tokens",
    "language_model.model.embed_tokens",
    "language_model.embed_tokens",
    "model.text_model.embed_tokens",
    "text_model.model.embed_tokens",
    "thinker.model.embed_tokens",
    "model.llm.embed_tokens",
    "llm.model.embed_tokens",
    "model.vlm.language_model.embed_tokens",
    "embed_tokens",
    # the GPT-2 line and its remote-code relatives
    "transformer.wte",
    "model.transformer.wte",
    "language_model.transformer.wte",
    "transformer.embd.wte",
    "wte",
    "gpt_neox.embed_in",
    "gpt_neox_japanese.embed_in",
    "embed_in",
    "transformer.word_embeddings",
    "word_embeddings",
    "transformer.embedding.word_embeddings",
    "embedding.word_embeddings",
    "transformer.token_embeddings",
    "transformer.in_out_embed",
    "transformer.tokens_embed",
    "tokens_embed",
    # state-space and recurrent models
    "backbone.embeddings",
    "backbone.embedding",
    "rwkv.embeddings",
    "emb",
    # Mistral's and Meta's own layouts, InternLM2
    "tok_embeddings",
    "model.tok_embeddings",
    "language_model.model.tok_embeddings",
    "model.embeddings",
    "model.embedding",
    "model.word_embeddings",
    "model.language_model.embeddings",
    "language_model.model.embeddings",
    # encoder-decoders: the shared table before the copies in either half, the decoder's before the encoder's
    "shared",
    "model.shared",
    "led.shared",
    "model.language_model.shared",
    "model.decoder.embed_tokens",
    "decoder.embed_tokens",
    "language_model.model.decoder.embed_tokens",
    "text_decoder.embed_tokens",
    "speecht5.decoder.prenet.embed_tokens",
    "prophetnet.word_embeddings",
    "prophetnet.decoder.word_embeddings",
    "model.encoder.embed_tokens",
    "encoder.embed_tokens",
    "model.encoder.text_model.embed_tokens",
    "model.local_encoder.embed_tokens",
    # encoders; any one word may stand before "embeddings" (see _ANY_OWNER)
    "bert.embeddings.word_embeddings",
    "roberta.embeddings.word_embeddings",
    "distilbert.embeddings.word_embeddings",
    "embeddings.word_embeddings",
    "text_decoder.bert.embeddings.word_embeddings",
    "decoder.bert.embeddings.word_embeddings",
    "model.embeddings.tok_embeddings",
    "model.text_model.embeddings.tok_embeddings",
    "embeddings.tok_embeddings",
    "model.embed_tokens.word_embeddings",
    "text_model.embeddings.token_embedding",
    "embeddings.token_embedding",
    "biogpt.embed_tokens",
    "esmc.embed_tokens",
    "cpmant.input_embedding",
    "transformer.word_embedding",
    "word_embedding",
    "transformer.embeddings",
    "transformer.w",
    # static embeddings: sentence-transformers, model2vec, a lone .npy array
    "embedding",
    "embeddings",
    "array",
)

OUTPUT_NAMES = (
    "lm_head",
    "embed_out",
    "language_model.lm_head",
    "text_model.lm_head",
    "thinker.lm_head",
    "llm.lm_head",
    "decoder.lm_head",
    "text_decoder_postnet.lm_head",
    "model.lm_head",
    "lm_head.linear",
    "lm_head.decoder",
    "lm_head.out_proj",
    "cls.predictions.decoder",
    "decoder.cls.predictions.decoder",
    "text_decoder.cls.predictions.decoder",
    "predictions.decoder",
    "vocab_projector",
    "generator_lm_head",
    "pred_layer.proj",
    "lm_loss",
    "word_embeddings_for_head",
    "transformer.output_layer",
    "model.transformer.ff_out",
    "transformer.ff_out",
    "language_model.output",
    # names that other heads carry too: taken only with about as many rows as the input has
    "output",
    "output_layer",
    "head",
    "head.out",
    "head.decoder",
    "decoder",
    "proj_out",
    "output_projection",
)
_AMBIGUOUS = frozenset(OUTPUT_NAMES[OUTPUT_NAMES.index("output") :])

_INPUT_RANK = MappingProxyType({path: rank for rank, path in enumerate(INPUT_NAMES)})
_OUTPUT_RANK = MappingProxyType({path: rank for rank, path in enumerate(OUTPUT_NAMES)})

_ANY_OWNER = re.compile(r"[A-Za-z_]\w*\.(embeddings\.word_embeddings)", re.ASCII)
_WRAPPERS = re.compile(r"(?:module\.|_orig_mod\.|base_model\.model\.|0\.auto_model\.|auto_model\.)+")

# What stands beside (or instead of) `<path>.weight` when the weight is stored as codes, and whose scheme that is.
_QUANTISED = MappingProxyType(
    {
        "qweight": "GPTQ or AWQ",
        "qzeros": "GPTQ or AWQ",
        "biases": "MLX groups",
        "scales": "MLX groups, GPTQ or AWQ",
        "weight_packed": "compressed-tensors",
        "weight_scale_2": "NVFP4",
        "weight_scale_inv": "FP8 blocks",
        "weight_scale": "FP8 or NVFP4",
        "weight_global_scale": "NVFP4",
        "SCB": "bitsandbytes 8-bit",
        "weight.SCB": "bitsandbytes 8-bit",
        "weight.absmax": "bitsandbytes 4-bit",
        "weight.quant_map": "bitsandbytes 4-bit",
        "absmax": "bitsandbytes 4-bit",
    }
)


@dataclass(frozen=True)
class Chosen:
    """The matrices to analyse; one of them may be absent."""

    input: TensorInfo | None
    output: TensorInfo | None


def is_input_name(name: str) -> bool:
    """Whether the name is one under which a checkpoint keeps its input embedding."""
    return _rank(_path_and_part(name)[0], _INPUT_RANK) is not None


def is_output_name(name: str) -> bool:
    """Whether the name is one under which a checkpoint keeps its output embedding."""
    return _rank(_path_and_part(name)[0], _OUTPUT_RANK) is not None


def is_vocabulary(tensor: TensorInfo) -> bool:
    """Whether the tensor is a readable matrix under a name that checkpoints give to a vocabulary matrix."""
    readable = len(tensor.shape) == 2 and tensor.size > 0 and tensor.dtype in READABLE_DTYPES
    return readable and (is_input_name(tensor.name) or is_output_name(tensor.name))


def shortlist(names: Iterable[str], *, input: str | None = None, output: str | None = None) -> tuple[str, ...]:
    """The names that `choose_tensors` may choose from: what is known without any shape.

    Raises
    ------
    TensorNotFound
        A name given explicitly is not among `names`.
    """
    listed = dict.fromkeys(names)
    explicit = tuple(name for name in (input, output) if name is not None)
    for name in explicit:
        if name not in listed:
            raise TensorNotFound(repr(name), candidates=nearest(name, listed))
    return explicit or tuple(name for name in listed if is_input_name(name) or is_output_name(name))


def choose_tensors(tensors: Sequence[TensorInfo], *, input: str | None = None, output: str | None = None) -> Chosen:
    """The vocabulary matrices among `tensors`.

    Explicit names win: with one of them given, only what is named is chosen. Without, the tables decide; what they
    do not know is never guessed.

    Raises
    ------
    TensorNotFound
        An explicit name does not exist, or no tensor is known to be a vocabulary matrix.
    NotAMatrix, UnsupportedDtype
        The tensor exists and cannot be analysed.
    """
    shortlist((tensor.name for tensor in tensors), input=input, output=output)
    by_name = {tensor.name: tensor for tensor in tensors}
    if input is None and output is None:
        chosen = _known(tensors)
    else:
        chosen = Chosen(by_name[input] if input is not None else None, by_name[output] if output is not None else None)
    for tensor in (chosen.input, chosen.output):
        if tensor is not None:
            _refuse_codes(tensor, by_name)
            check_matrix(tensor)
    return chosen


def nearest(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Up to ten names with the longest beginning and end in common with `wanted`."""

    def likeness(name: str) -> float:
        shared = _common(wanted, name) + _common(reversed(wanted), reversed(name))
        return shared / max(len(wanted), len(name), 1)

    vocabulary_first = sorted(names, key=lambda name: (-likeness(name), not is_input_name(name), name))
    return tuple(vocabulary_first[:MAX_CANDIDATES])


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _known(tensors: Sequence[TensorInfo]) -> Chosen:
    inputs = _ranked(tensors, _INPUT_RANK)
    outputs = _ranked(tensors, _OUTPUT_RANK)
    first = inputs[0] if inputs else None
    outputs = [tensor for tensor in outputs if not _unlikely_head(tensor, first)]
    if first is None and not outputs:
        largest = largest_matrices(tensors, limit=MAX_CANDIDATES)
        error = TensorNotFound("a known vocabulary matrix", candidates=[str(tensor) for tensor in largest])
        error.candidates = tuple(tensor.name for tensor in largest)
        raise error
    return Chosen(first, outputs[0] if outputs else None)


def _ranked(tensors: Sequence[TensorInfo], ranks: Mapping[str, int]) -> list[TensorInfo]:
    """Tensors that the table knows, the best first: matrices before others, then by rank; codes before scales."""
    found = []
    for tensor in tensors:
        path, part = _path_and_part(tensor.name)
        rank = _rank(path, ranks)
        if rank is not None:
            found.append(((len(tensor.shape) != 2, rank, part != "weight", -tensor.size, tensor.name), tensor))
    return [tensor for _, tensor in sorted(found, key=lambda entry: entry[0])]


def _unlikely_head(tensor: TensorInfo, first: TensorInfo | None) -> bool:
    if _path_and_part(tensor.name)[0] not in _AMBIGUOUS:
        return False
    if first is None or len(tensor.shape) != 2 or len(first.shape) != 2:
        return True
    return not first.shape[0] / 2 <= tensor.shape[0] <= first.shape[0] * 2


def _rank(path: str, ranks: Mapping[str, int]) -> int | None:
    if path in ranks:
        return ranks[path]
    owned = _ANY_OWNER.fullmatch(path)
    return ranks.get(owned[1]) if owned else None


def _path_and_part(name: str) -> tuple[str, str]:
    """Split `model.embed_tokens.weight` into module path and part; a bare path is its own weight."""
    name = _WRAPPERS.sub("", name, count=1) if _WRAPPERS.match(name) else name
    for part in ("weight", *_QUANTISED):
        if name.endswith(f".{part}"):
            return name[: -len(part) - 1], part
    return name, "weight"


def _refuse_codes(tensor: TensorInfo, by_name: Mapping[str, TensorInfo]) -> None:
    module = tensor.name.removesuffix(".weight")
    _, own_part = _path_and_part(tensor.name)
    parts = [part for part in _QUANTISED if part == own_part or f"{module}.{part}" in by_name]
    if own_part != "weight":
        module = tensor.name[: -len(own_part) - 1]
        parts += [part for part in _QUANTISED if f"{module}.{part}" in by_name]
    if parts:
        raise UnsupportedDtype(
            tensor.name,
            f"{tensor.dtype}, codes or scales of a quantisation ({_QUANTISED[parts[0]]})",
            supported=READABLE_DTYPES,
        )
