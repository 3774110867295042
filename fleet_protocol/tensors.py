"""Arrays on the wire and on disk: safetensors with one JSON document in the header. Never pickle.

The document travels under the metadata key ``auricle``; the arrays' bytes follow in name order, so that
equal content has equal bytes and therefore an equal SHA-256 digest (uploads are content-addressed).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as _load
from safetensors.numpy import save as _save

from fleet_protocol.arrays import Array
from fleet_protocol.errors import TensorError

Arrays = dict[str, Array]

_METADATA_KEY = "auricle"
_DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "BOOL": "|b1"}


def pack(arrays: Mapping[str, Array], document: Mapping[str, Any]) -> bytes:
    """Serialise named arrays and a JSON document to safetensors bytes; equal input gives equal bytes."""
    ordered = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return bytes(_save(ordered, metadata={_METADATA_KEY: text}))


def unpack(data: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Parse bytes that :func:`pack` wrote into (arrays, document).

    Raises:
        TensorError: the bytes are no safetensors file, or carry no document.
    """
    try:
        arrays = _load(data)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise TensorError(f"not a readable safetensors file ({len(data)} bytes): {error}") from error
    return arrays, document_of(data)


def read_document(file: BinaryIO) -> dict[str, Any]:
    """Read the document of a file that :func:`pack` wrote and leave the arrays where they are.

    Raises:
        TensorError: the file is no safetensors file, or carries no document.
    """
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if length > os.fstat(file.fileno()).st_size:
        raise TensorError(f"not a readable safetensors file: its header is said to take {length} bytes")
    return document_of(start + file.read(length))


def view(data: bytes) -> Arrays:
    """Return the arrays of bytes that :func:`unpack` took before, without a copy: they look into ``data``, read-only.

    Three times as fast as :func:`unpack`, which checks what comes from outside; this does not.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    arrays: Arrays = {}
    for name, entry in header.items():
        shape = entry["shape"]
        flat = np.frombuffer(data, _DTYPES[entry["dtype"]], math.prod(shape), start + entry["data_offsets"][0])
        arrays[name] = flat.reshape(shape)
    return arrays


def document_of(data: bytes) -> dict[str, Any]:
    """Read the document of bytes that :func:`pack` wrote, and leave the arrays where they are.

    The layout is fixed: u64 little-endian header length, then JSON.

    Raises:
        TensorError: the header is no JSON object, or carries no document.
    """
    length = int.from_bytes(data[:8], "little")
    try:
        text = json.loads(data[8 : 8 + length]).get("__metadata__", {}).get(_METADATA_KEY)
    except (ValueError, AttributeError) as error:
        raise TensorError(f"not a readable safetensors file: its header is no JSON object ({error})") from error
    if text is None:
        raise TensorError(f"the file's header holds no {_METADATA_KEY!r} document: it was not written by Auricle")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter: a hostile document nests a million brackets
        raise TensorError(f"the header's {_METADATA_KEY!r} document is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise TensorError(f"the header's document must be a JSON object, not {type(document).__name__}")
    return document


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 lower-case hex digits: the name of a blob."""
    return hashlib.sha256(data).hexdigest()


def require(
    arrays: Mapping[str, Array],
    name: str,
    shape: tuple[int | None, ...],
    kind: str = "f",
) -> Array:
    """Return ``arrays[name]`` after checking it: rank, sizes (None is any), dtype kind, finite values.

    Raises:
        TensorError: naming the array, what was expected and what was given.
    """
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
