"""JSON from strangers: no duplicate keys, no lone surrogates, a bounded number of values."""

import json
import re
from collections import Counter
from typing import Any

from gramian.errors import InvalidWeights

# Every value but the first of its container follows a comma, so commas bound the objects that parsing can make:
# 16 MiB of "[],[],..." would otherwise become half a gigabyte.
MAX_COMMAS = 2**20

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_object(raw: bytes, *, what: str, constants: bool = False, values: int = MAX_COMMAS) -> dict[str, Any]:
    """The JSON object in `raw`; `constants` allows NaN and Infinity, which some config.json files hold."""
    value = parse(raw, what=what, constants=constants, values=values)
    if not isinstance(value, dict):
        raise InvalidWeights(f"{what} is not a JSON object but {_kind(value)}")
    return value


def parse(raw: bytes, *, what: str, constants: bool = False, values: int = MAX_COMMAS) -> Any:
    """The JSON value in `raw`; every malformed input is InvalidWeights, with `what` as its subject."""
    if raw.count(b",") > values:
        raise InvalidWeights(f"{what} holds more than {values:,} values")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidWeights(f"{what} is not UTF-8 (byte {error.start})") from None

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise InvalidWeights(f"{what} has the key {shorten(twice)} twice")
        return found

    def constant(name: str) -> float:
        if not constants:
            raise InvalidWeights(f"{what} holds {name}, which is not JSON")
        return float(name)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise InvalidWeights(f"{what} is nested too deeply") from None
    except UnicodeEncodeError:
        raise InvalidWeights(f"{what} holds half a surrogate pair, which is not a character") from None
    except json.JSONDecodeError as error:
        raise InvalidWeights(f"{what} is not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:  # an integer of more digits than Python converts
        raise InvalidWeights(f"{what} holds a number of thousands of digits") from None
    return value


def _kind(value: object) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


def shorten(text: str) -> str:
    """The text as a quoted literal of bounded length, safe to put into a message."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
