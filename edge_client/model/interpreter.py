"""Opens a graph with the TensorFlow Lite runtime that this machine has, loaded only when a graph is opened.

`tflite-runtime` is all that 32-bit ARM has wheels of; elsewhere it is `ai-edge-litert`. The environment variable
AURICLE_RUNTIME (`tflite`, `litert`, or `c` for TensorFlow Lite's C library) chooses one.
"""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from edge_client.errors import ModelError
from edge_client.model import c_library
from edge_client.model.greeting import without_greeting
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import SIGNATURES

State = dict[str, Floats]
Signatures = dict[str, Callable[..., dict[str, Any]]]

_RUNTIMES = {
    "c": (c_library.PACKAGE, "edge_client.model.c_library"),
    "tflite": ("tflite-runtime", "tflite_runtime.interpreter"),
    "litert": ("ai-edge-litert", "ai_edge_litert.interpreter"),
}


def open_graph(graph: bytes, threads: int) -> tuple[str, Signatures]:
    """Open a bundle's graph; return the runtime's name and the six signatures as callables.

    Raises:
        ModelError: this machine has no runtime, or the runtime cannot take the graph.
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

    The graph takes a fixed number of rows; more are passed in parts, and fewer are filled up.

    Raises:
        ModelError: this machine has no runtime, or the runtime cannot take the graph. The returned function raises it
            for rows of another shape.
    """
    package, interpreter_class = _load_runtime()
    try:
        with without_greeting():
            interpreter = interpreter_class(model_content=graph, num_threads=1)
            interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"{package} cannot take this network ({error})") from error
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    batch, *shape = (int(size) for size in taken["shape"])

    def run(rows: Floats) -> Floats:
        if list(rows.shape[1:]) != shape:
            raise ModelError(f"the network takes rows of shape {tuple(shape)}, not {rows.shape[1:]}")
        found = np.empty((len(rows), *given["shape"][1:]), np.float32)
        part = np.zeros((batch, *shape), np.float32)
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            part[: len(some)] = some
            interpreter.set_tensor(taken["index"], part)
            interpreter.invoke()
            found[start : start + batch] = interpreter.get_tensor(given["index"])[: len(some)]
        return found

    return run


class StreamingNetwork:
    """A network that takes a stream part by part, and hands on what it must remember as its state.

    Its graph has a signature ``step``: the inputs ``parts`` (any number of them) and any number of others, the state;
    the outputs ``columns``, one of each part, and, under the same names, the next state. A state of zeros starts a
    stream.
    """

    def __init__(self, graph: bytes) -> None:
        """Open the graph.

        Raises:
            ModelError: this machine has no runtime, or the runtime cannot take the graph.
        """
        package, interpreter_class = _load_runtime()
        try:
            self._step = interpreter_class(model_content=graph, num_threads=1).get_signature_runner("step")
            shapes = {name: tuple(details["shape"]) for name, details in self._step.get_input_details().items()}
            self.part_shape = shapes.pop("parts")[1:]
            self.start: State = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
            with without_greeting():
                columns, _ = self.step(np.zeros((1, *self.part_shape), np.float32), self.start)
        except (ValueError, RuntimeError, KeyError) as error:
            raise ModelError(f"{package} cannot take this network as one of a stream ({error})") from error
        self.column_shape = columns.shape[1:]

    def step(self, parts: Floats, state: State) -> tuple[Floats, State]:
        """Return the columns of successive parts, float32 both, and the next state."""
        found: State = self._step(parts=parts, **state)
        return found.pop("columns"), found


def runtime_name() -> str:
    """Return the package of the runtime that this machine takes.

    Raises:
        ModelError: it has none.
    """
    return _load_runtime()[0]


def installed_runtime() -> str:
    """Return name and version of the runtime that this machine takes, without loading it; "" where it has none."""
    for name in _wanted():
        package, _ = _RUNTIMES[name]
        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
    return ""


def _wanted() -> list[str]:
    """Return the keys of the runtimes that this machine may take, the first choice first.

    Raises:
        ModelError: the environment names another one.
    """
    chosen = os.environ.get("AURICLE_RUNTIME", "")
    if chosen and chosen not in _RUNTIMES:
        raise ModelError(f"AURICLE_RUNTIME is {chosen!r}; it may be c, tflite or litert, or unset")
    usual = ["tflite", "litert", "c"] if platform.machine() == "armv7l" else ["litert", "tflite", "c"]
    return [chosen] if chosen else usual


def _load_runtime() -> tuple[str, Any]:
    """Return the package's name and its interpreter class."""
    problems = []
    for name in _wanted():
        package, module = _RUNTIMES[name]
        try:
            return package, importlib.import_module(module).Interpreter
        except ImportError as error:
            problems.append(f"{package}: {error}")
    raise ModelError(
        f"no TensorFlow Lite runtime can be loaded ({'; '.join(problems)}); pip install 'auricle[edge]' brings one"
    )
