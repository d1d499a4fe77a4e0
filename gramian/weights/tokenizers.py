"""Which token each row stands for, from the tokenizer's files beside the weights. They are read as data only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gramian.errors import InvalidWeights, TokenizerMissing
from gramian.weights.sources import WeightSource
from gramian.weights.strict_json import parse_object

MAX_TOKENIZER_BYTES = 64 * 2**20
MAX_TOKENIZER_VALUES = 2**23  # vocabulary and merges of 500,000 tokens have some three million
MAX_TOKEN_ID = 2**24

FILES = ("tokenizer.json", "vocab.json", "vocab.txt")

#: Names of slots that no text becomes: `[unused7]`, `<unused7>`, `<|reserved_special_token_7|>`, `madeupword0001`.
_UNUSED = re.compile(
    r"[<\[]\|?_?(?:unused|reserved|placeholder|dummy)[a-z_]*_?-?\d*\|?[>\]]|madeupword\d+", re.IGNORECASE
)


@dataclass(frozen=True)
class Tokens:
    """The tokens of a vocabulary by their ids, which are row numbers."""

    texts: Mapping[int, str]
    file: str

    @property
    def rows(self) -> int:
        """Rows up to the last token: further rows are padding."""
        return max(self.texts, default=-1) + 1

    @property
    def unused(self) -> list[int]:
        """Ids whose names say that they stand for nothing."""
        return [number for number, text in self.texts.items() if _UNUSED.fullmatch(text)]


def read_tokens(source: WeightSource) -> Tokens:
    """The tokens of a source.

    Raises
    ------
    TokenizerMissing
        There is none of the files that are read.
    InvalidWeights
        The file is not what its name says.
    """
    for name in FILES:
        raw = source.beside(name, limit=MAX_TOKENIZER_BYTES)
        if raw is None:
            continue
        if name == "vocab.txt":
            texts = dict(enumerate(_lines(raw, name)))
        else:
            described = parse_object(raw, what=name, values=MAX_TOKENIZER_VALUES)
            texts = _from_tokenizer(described, name) if name == "tokenizer.json" else _by_id(described, name)
        if name != "tokenizer.json" and (added := source.beside("added_tokens.json", limit=MAX_TOKENIZER_BYTES)):
            texts |= _by_id(parse_object(added, what="added_tokens.json"), "added_tokens.json")
        return Tokens(texts, name)
    raise TokenizerMissing(
        f"there is none of {', '.join(FILES)} beside the weights",
        hint="analyse a model folder or a Hub model that has one; padding cannot be told from the numbers",
    )


def _from_tokenizer(described: Mapping[str, Any], name: str) -> dict[int, str]:
    model = described.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        texts = _by_id(vocabulary, name)
    elif isinstance(vocabulary, list):  # Unigram: tokens with their scores, in the order of their ids
        texts = {}
        for number, entry in enumerate(vocabulary):
            if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
                raise InvalidWeights(f"{name}: entry {number} of the vocabulary is not a token with its score")
            texts[number] = entry[0]
    else:
        raise InvalidWeights(f"{name} has no model.vocab of tokens")
    added = described.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise InvalidWeights(f"{name}: added_tokens is not a list of tokens")
    return texts | {_id(token.get("id"), name): str(token.get("content")) for token in added}


def _by_id(vocabulary: Mapping[str, Any], name: str) -> dict[int, str]:
    return {_id(number, name): text for text, number in vocabulary.items()}


def _id(number: object, name: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < MAX_TOKEN_ID:
        raise InvalidWeights(f"{name} has a token whose id is not a row number: {str(number)[:40]}")
    return number


def _lines(raw: bytes, name: str) -> list[str]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidWeights(f"{name} is not UTF-8 (byte {error.start})") from None
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
