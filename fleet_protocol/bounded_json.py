"""JSON from somebody else: its bytes, its number of values and its nesting are bounded before it is parsed.

A parser makes an object of 64 bytes or more of the two bytes ``{}``, and recurses once for every bracket. So a text
that is small on the wire can be large in memory, or too deep for the stack.
"""

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fleet_protocol.errors import JsonError

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = b"[]{}"
_MOST_DIGITS = 20
_ALL_BUT_BRACKETS = bytes(value for value in range(256) if value not in _BRACKETS)
_STEP = {byte: 1 if byte in b"[{" else -1 for byte in _BRACKETS}


@dataclass(frozen=True)
class JsonBounds:
    """What a JSON text may be."""

    size: int  # Largest number of bytes
    values: int  # Largest number of values. Commas and brackets within strings count as well
    depth: int  # Deepest nesting of arrays and objects


def parse_json(text: bytes, bounds: JsonBounds, what: str) -> Any:  # noqa: ANN401
    """Parse a JSON text in UTF-8; ``what`` names it in errors. Raises JsonError: beyond a bound, or no JSON."""
    require_bounded(text, bounds, what)
    try:
        return json.loads(text.decode(), parse_int=_number)
    except ValueError as error:  # bad UTF-8 is one too
        raise JsonError(f"{what} is not JSON: {error}") from error


def _number(digits: str) -> int:
    """Return a number that fits 64 bits: larger ones fail where they are computed with, and Python refuses some."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits; at most {_MOST_DIGITS} are read")
    return int(digits)


def require_bounded(text: bytes, bounds: JsonBounds, what: str) -> None:
    """Check a JSON text before it is parsed; ``what`` names it in errors. Raises JsonError: it is beyond a bound."""
    if len(text) > bounds.size:
        raise JsonError(f"{what} has {len(text)} bytes; at most {bounds.size} are read")
    values = 1 + text.count(b",") + text.count(b"[") + text.count(b"{")
    if values > bounds.values:
        raise JsonError(f"{what} may hold {values} values; at most {bounds.values} are read")
    brackets = _STRING.sub(b"", text).translate(None, _ALL_BUT_BRACKETS)
    depth = max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
    if depth > bounds.depth:
        raise JsonError(f"{what} nests {depth} arrays and objects; at most {bounds.depth} are read")
