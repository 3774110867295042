"""Opens graphs with TensorFlow Lite's C library, which is loaded only when a graph is opened."""

import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.errors import ModelError
from edge_client.model import c_library
from edge_client.model.library_file import PACKAGE, VARIABLE, digest_of, library_path
from fleet_protocol.bundle.bundle_file import SIGNATURES
from fleet_protocol.numbers.arrays import Floats

Signatures = dict[str, c_library.Signature]

_DIGITS = 12  # of a digest that is shown


def open_graph(graph: bytes, threads: int) -> Signatures:
    """Open a bundle's graph; return the six signatures. Raises ModelError if no runtime takes it."""
    try:
        interpreter = c_library.Interpreter(graph, threads)
        return {name: interpreter.get_signature_runner(name) for name in SIGNATURES}
    except (ValueError, RuntimeError) as error:
        raise ModelError(
            f"{PACKAGE} cannot take this bundle's graph ({error}); build the bundle again with `auricle-export build`"
        ) from error


def open_network(graph: bytes) -> Callable[[Floats], Floats]:
    """Open a network of one input and one output, float32 both: [rows, ...] -> [rows, ...].

    The graph takes a fixed number of rows; more are passed in parts, and fewer are filled up. An axis of size 1 is one
    of any size, such as the frames of a network for clips of any length; the signature ``embed`` takes a row of these.
    Raises ModelError if no runtime takes the graph; so does the function, for rows of another shape.
    """
    try:
        interpreter = c_library.Interpreter(graph, frozen=True)
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"{PACKAGE} cannot take this network ({error})") from error
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    batch, *shape = (int(size) for size in taken["shape"])
    if 1 in shape:
        return _open_flexible(interpreter, shape, [int(size) for size in given["shape"][1:]])

    def run(rows: Floats) -> Floats:
        if list(rows.shape[1:]) != shape:
            raise ModelError(f"the network takes rows of shape {tuple(shape)}, not {rows.shape[1:]}")
        found = np.empty((len(rows), *given["shape"][1:]), np.float32)
        for start in range(0, len(rows), batch):
            some = np.ascontiguousarray(rows[start : start + batch], np.float32)
            if len(some) < batch:
                some = np.concatenate([some, np.zeros((batch - len(some), *shape), np.float32)])
            interpreter.set_tensor(taken["index"], some)
            interpreter.invoke()
            found[start : start + batch] = interpreter.get_tensor(given["index"])[: len(rows) - start]
        return found

    return run


def _open_flexible(interpreter: Any, shape: list[int], result: list[int]) -> Callable[[Floats], Floats]:  # noqa: ANN401
    """Return a network with axes of any size, which takes row by row."""
    runner = interpreter.get_signature_runner("embed")
    [name] = runner.get_input_details()

    def run(rows: Floats) -> Floats:
        if len(rows.shape) - 1 != len(shape) or any(
            size not in (1, given) for size, given in zip(shape, rows.shape[1:], strict=True)
        ):
            free = ", ".join("any" if size == 1 else str(size) for size in shape)
            raise ModelError(f"the network takes rows of shape ({free}), not {rows.shape[1:]}")
        found = np.empty((len(rows), *result), np.float32)
        for row, into in zip(rows, found, strict=True):
            (into[...],) = runner(**{name: row[None]}).values()
        return found

    return run


def installed_runtime() -> str:
    """Return name and version of the runtime that this machine takes, without loading it; "" where it has none."""
    if own := os.environ.get(VARIABLE):
        return f"{Path(own).name} {digest_of(Path(own))[:_DIGITS]}" if Path(own).is_file() else ""
    try:
        return f"{PACKAGE} {metadata.version(PACKAGE)}"
    except metadata.PackageNotFoundError:
        return ""


def describe_runtime() -> str:
    """Return the library's version, source and digest, in words. Raises ModelError if there is none."""
    c_library.load()
    path = library_path()
    source = str(path) if os.environ.get(VARIABLE) else installed_runtime()
    return f"TensorFlow Lite {c_library.library_version()} ({source}, SHA-256 {digest_of(path)[:_DIGITS]})"
