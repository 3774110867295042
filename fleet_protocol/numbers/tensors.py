"""Arrays on the wire and on disk: safetensors with one JSON document in the header. Never pickle.

The document travels under the metadata key ``auricle``; the arrays' bytes follow in name order, so that
equal content has equal bytes and therefore an equal SHA-256 digest (uploads are content-addressed).
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from safetensors.numpy import save as _save

from fleet_protocol.bounded_json import JsonBounds, parse_json
from fleet_protocol.errors import JsonError, TensorError
from fleet_protocol.numbers.arrays import Array

Arrays = dict[str, Array]
Buffer = bytes | memoryview

_METADATA_KEY = "auricle"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LENGTH_BYTES = 8
_MAX_DIMENSIONS = 8
# NumPy's types by safetensors' names, such as F32; little-endian.
_NUMBERS = ("u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8")
_DTYPES = {"BOOL": "|b1"} | {f"{one[0].upper()}{8 * int(one[1])}": f"<{one}" for one in _NUMBERS}


@dataclass(frozen=True)
class TensorBounds:
    """What the header of an array file may be; the arrays themselves are bounded by the size of the file."""

    header: JsonBounds  # Bounds of the header, which holds the document as a string
    document: JsonBounds  # Bounds of the document
    arrays: int  # Largest number of arrays


# Enough for a public set of 4,096 classes with long names.
_BOUNDS = TensorBounds(
    header=JsonBounds(size=8 * 2**20, values=2**18, depth=4),
    document=JsonBounds(size=4 * 2**20, values=2**18, depth=16),
    arrays=4_096,
)


def pack(arrays: Mapping[str, Array], document: Mapping[str, Any]) -> bytes:
    """Serialise named arrays and a JSON document to safetensors bytes; equal input gives equal bytes."""
    ordered = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return bytes(_save(ordered, metadata={_METADATA_KEY: text}))


def unpack(data: Buffer, bounds: TensorBounds = _BOUNDS) -> tuple[Arrays, dict[str, Any]]:
    """Parse bytes as :func:`view` does; the arrays are copies. Raises TensorError."""
    arrays, document = view(data, bounds)
    return {name: array.copy() for name, array in arrays.items()}, document


def view(data: Buffer, bounds: TensorBounds = _BOUNDS) -> tuple[Arrays, dict[str, Any]]:
    """Parse bytes that :func:`pack` wrote into (arrays, document); the arrays look into ``data``, read-only.

    Raises TensorError: the bytes are no safetensors file, are beyond a bound, or carry no document.
    """
    length = _header_length(bytes(data[:_LENGTH_BYTES]), len(data), bounds)
    start = _LENGTH_BYTES + length
    header = _object(bytes(data[_LENGTH_BYTES:start]), bounds.header, "the header")
    metadata = header.pop("__metadata__", None)
    if len(header) > bounds.arrays:
        raise TensorError(f"the file holds {len(header)} arrays; at most {bounds.arrays} are read")
    whole = memoryview(data).toreadonly()[start:]
    arrays, ends = {}, []
    for name, entry in header.items():
        arrays[name], begin, end = _array(name, entry, whole)
        ends.append((begin, end))
    _require_no_gaps(sorted(ends), len(whole))
    return arrays, _document(metadata, bounds)


def read_document(file: BinaryIO) -> dict[str, Any]:
    """Return the document of an open file that :func:`pack` wrote, without reading its arrays. Raises TensorError."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = _header_length(file.read(_LENGTH_BYTES), size, _BOUNDS)
    return _document(_object(file.read(length), _BOUNDS.header, "the header").get("__metadata__"), _BOUNDS)


def _header_length(start: bytes, size: int, bounds: TensorBounds) -> int:
    """Return the length of the header: a u64, little-endian, at the start of the file."""
    length = int.from_bytes(start, "little")
    if len(start) < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
        raise TensorError(
            f"not a readable safetensors file ({size} bytes): its header is said to take {length} bytes; it is cut "
            "off, or something else"
        )
    if length > bounds.header.size:
        raise TensorError(f"the file's header has {length} bytes; at most {bounds.header.size} are read")
    return length


def _object(text: bytes, bounds: JsonBounds, what: str) -> dict[str, Any]:
    try:
        found = parse_json(text, bounds, what)
    except JsonError as error:
        raise TensorError(f"not a readable safetensors file: {error}") from error
    if not isinstance(found, dict):
        raise TensorError(f"not a readable safetensors file: {what} is no JSON object")
    return found


def _array(name: str, entry: Any, whole: memoryview) -> tuple[Array, int, int]:  # noqa: ANN401
    """Return (array, its first byte, the byte after its last one) of an entry of the header."""
    try:
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        numbers = [begin, end, *shape]
        if len(shape) > _MAX_DIMENSIONS or any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("its shape and offsets must be whole numbers of at least 0")
        if end > len(whole) or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"bytes {begin} to {end} of {len(whole)} do not hold shape {shape} of {entry['dtype']}")
        return np.frombuffer(whole[begin:end], dtype).reshape(shape), begin, end
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise TensorError(f"not a readable safetensors file: array {name[:100]!r}: {error}"[:500]) from error


def _require_no_gaps(ends: list[tuple[int, int]], size: int) -> None:
    """Check that the arrays fill the file one after the other: then no bytes are hidden, and none are used twice."""
    reached = 0
    for begin, end in ends:
        if begin != reached:
            raise TensorError(f"not a readable safetensors file: an array starts at byte {begin} and not at {reached}")
        reached = end
    if reached != size:
        raise TensorError(f"not a readable safetensors file: its arrays end at byte {reached} of {size}")


def _document(metadata: object, bounds: TensorBounds) -> dict[str, Any]:
    text = metadata.get(_METADATA_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise TensorError(f"the file's header holds no {_METADATA_KEY!r} document: it was not written by Auricle")
    return _object(text.encode("utf-8", "surrogatepass"), bounds.document, f"the header's {_METADATA_KEY!r} document")


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 lower-case hex digits: the name of a blob."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    """Tell whether a text is written as :func:`digest` writes one."""
    return _DIGEST.fullmatch(text) is not None


def require(arrays: Mapping[str, Array], name: str, shape: tuple[int | None, ...], kind: str = "f") -> Array:
    """Return an array. Raises TensorError: its rank, a size (None is any), its dtype or a value is wrong."""
    if name not in arrays:
        raise TensorError(f"array {name!r} is missing; present: {', '.join(sorted(arrays)) or 'none'}")
    array = arrays[name]
    wanted = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
    fits = len(array.shape) == len(shape) and all(
        size is None or size == given for size, given in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise TensorError(f"array {name!r} has shape {array.shape}, expected {wanted}")
    if array.dtype.kind != kind:
        raise TensorError(f"array {name!r} has dtype {array.dtype}, expected kind {kind!r}")
    if kind == "f" and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise TensorError(f"array {name!r} holds {array[where]} at {where}; every value must be finite")
    return array
