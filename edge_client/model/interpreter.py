"""Opens a graph with a TensorFlow Lite runtime, loaded only when a graph is opened.

That is TensorFlow Lite's C library. The environment variable AURICLE_RUNTIME chooses another one: `tflite`
(tflite-runtime) or `litert` (LiteRT), where these have wheels.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.errors import ModelError
from edge_client.model import c_library
from edge_client.model.greeting import without_greeting
from edge_client.model.library_file import PACKAGE, VARIABLE, digest_of, library_path
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import SIGNATURES

Signatures = dict[str, Callable[..., dict[str, Any]]]

# Of each runtime: its package, the module with its Interpreter, and the extra that brings it.
_RUNTIMES = {
    "c": (PACKAGE, "edge_client.model.c_library", "edge"),
    "tflite": ("tflite-runtime", "tflite_runtime.interpreter", "tflite"),
    "litert": ("ai-edge-litert", "ai_edge_litert.interpreter", "litert"),
}
CHOICE = "AURICLE_RUNTIME"
_DIGITS = 12  # of a digest that is shown


def open_graph(graph: bytes, threads: int) -> tuple[str, Signatures]:
    """Open a bundle's graph; return the runtime's name and the six signatures as callables.

    Raises ModelError: this machine has no runtime, or the runtime cannot take the graph.
    """
    package, interpreter_class = _load_runtime()
    try:
        interpreter = interpreter_class(model_content=graph, num_threads=threads)
        return package, {name: interpreter.get_signature_runner(name) for name in SIGNATURES}
    except (ValueError, RuntimeError) as error:
        raise ModelError(
            f"{package} cannot take this bundle's graph ({error}); build the bundle again with `auricle-export build`"
        ) from error


def open_network(graph: bytes) -> Callable[[Floats], Floats]:
    """Open a network of one input and one output, float32 both: [rows, ...] -> [rows, ...].

    The graph takes a fixed number of rows; more are passed in parts, and fewer are filled up. An axis of size 1 is one
    of any size, such as the frames of a network for clips of any length; the signature ``embed`` takes a row of these.

    Raises ModelError: this machine has no runtime, or the runtime cannot take the graph. The returned function raises
    it for rows of another shape.
    """
    package, interpreter_class = _load_runtime(frozen=True)
    try:
        with without_greeting():
            interpreter = interpreter_class(model_content=graph, num_threads=1)
            interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"{package} cannot take this network ({error})") from error
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


def runtime_name() -> str:
    """Return the package of the runtime that this machine takes.

    Raises ModelError: it has none.
    """
    return _load_runtime()[0]


def installed_runtime() -> str:
    """Return name and version of the runtime that this machine takes, without loading it; "" where it has none.

    Raises ModelError: the environment names an unknown one.
    """
    chosen = _chosen()
    if chosen == "c" and (own := os.environ.get(VARIABLE)):
        return f"{Path(own).name} {digest_of(Path(own))[:_DIGITS]}" if Path(own).is_file() else ""
    package = _RUNTIMES[chosen][0]
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return ""


def describe_runtime() -> str:
    """Return what computes here, in words: the runtime, and of a library its version and digest.

    Raises ModelError: this machine has no runtime.
    """
    _load_runtime()
    if _chosen() != "c":
        return installed_runtime()
    path = library_path()
    source = str(path) if os.environ.get(VARIABLE) else installed_runtime()
    return f"TensorFlow Lite {c_library.library_version()} ({source}, SHA-256 {digest_of(path)[:_DIGITS]})"


def _chosen() -> str:
    """Return the key of the runtime that this machine takes.

    Raises ModelError: the environment names an unknown one.
    """
    chosen = os.environ.get(CHOICE, "")
    if chosen and chosen not in _RUNTIMES:
        raise ModelError(f"{CHOICE} is {chosen!r}; it may be c, tflite or litert, or unset")
    return chosen or ("c" if sys.platform == "linux" else "litert")  # the package's libraries are for Linux


def _load_runtime(*, frozen: bool = False) -> tuple[str, Any]:
    """Return the package's name and its interpreter class, for graphs that train or for those that never do.

    Raises ModelError: it cannot be loaded; says why, and the way out.
    """
    chosen = _chosen()
    package, module, extra = _RUNTIMES[chosen]
    if chosen == "c":
        c_library.load()
        return package, partial(c_library.Interpreter, frozen=frozen)
    try:
        return package, importlib.import_module(module).Interpreter
    except ImportError as error:
        raise ModelError(
            f"{package} cannot be loaded ({error}); pip install 'auricle[{extra}]' brings it where it has a wheel, or "
            f"choose another runtime by {CHOICE} (c, tflite or litert)"
        ) from error
