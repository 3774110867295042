"""TensorFlow Lite's C library, driven by ctypes: signatures, variables, and networks without signatures.

The library does not depend on Python's version, so one file serves every Python of a processor. Names are those of the
Python interfaces of TensorFlow Lite and LiteRT.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.errors import ModelError
from edge_client.model.library_file import library_path, why_not_loaded
from fleet_protocol.numbers.arrays import Array

_TYPES = {1: np.float32, 2: np.int32, 3: np.uint8, 4: np.int64, 6: np.bool_, 7: np.int16, 9: np.int8}
_SAID_BYTES = 500

_Reporter = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_void_p)
_Ints = POINTER(c_int32)
# Of each function: what it returns, and what it takes.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "Version": (c_char_p, ()),
    "ModelCreateWithErrorReporter": (c_void_p, (c_char_p, c_size_t, _Reporter, c_void_p)),
    "ModelDelete": (None, (c_void_p,)),
    "InterpreterOptionsCreate": (c_void_p, ()),
    "InterpreterOptionsDelete": (None, (c_void_p,)),
    "InterpreterOptionsSetNumThreads": (None, (c_void_p, c_int32)),
    "InterpreterOptionsAddDelegate": (None, (c_void_p, c_void_p)),
    "InterpreterOptionsSetErrorReporter": (None, (c_void_p, _Reporter, c_void_p)),
    "InterpreterCreate": (c_void_p, (c_void_p, c_void_p)),
    "InterpreterDelete": (None, (c_void_p,)),
    "InterpreterAllocateTensors": (c_int, (c_void_p,)),
    "InterpreterInvoke": (c_int, (c_void_p,)),
    "InterpreterGetInputTensorCount": (c_int32, (c_void_p,)),
    "InterpreterGetInputTensor": (c_void_p, (c_void_p, c_int32)),
    "InterpreterGetOutputTensorCount": (c_int32, (c_void_p,)),
    "InterpreterGetOutputTensor": (c_void_p, (c_void_p, c_int32)),
    "InterpreterGetSignatureCount": (c_int32, (c_void_p,)),
    "InterpreterGetSignatureKey": (c_char_p, (c_void_p, c_int32)),
    "InterpreterGetSignatureRunner": (c_void_p, (c_void_p, c_char_p)),
    "SignatureRunnerDelete": (None, (c_void_p,)),
    "SignatureRunnerGetInputCount": (c_size_t, (c_void_p,)),
    "SignatureRunnerGetInputName": (c_char_p, (c_void_p, c_int32)),
    "SignatureRunnerGetInputTensor": (c_void_p, (c_void_p, c_char_p)),
    "SignatureRunnerResizeInputTensor": (c_int, (c_void_p, c_char_p, _Ints, c_int32)),
    "SignatureRunnerAllocateTensors": (c_int, (c_void_p,)),
    "SignatureRunnerInvoke": (c_int, (c_void_p,)),
    "SignatureRunnerGetOutputCount": (c_size_t, (c_void_p,)),
    "SignatureRunnerGetOutputName": (c_char_p, (c_void_p, c_int32)),
    "SignatureRunnerGetOutputTensor": (c_void_p, (c_void_p, c_char_p)),
    "TensorType": (c_int, (c_void_p,)),
    "TensorNumDims": (c_int32, (c_void_p,)),
    "TensorDim": (c_int32, (c_void_p, c_int32)),
    "TensorData": (c_void_p, (c_void_p,)),
    "TensorByteSize": (c_size_t, (c_void_p,)),
}
# Kernels of XNNPACK; the package's library for 32-bit ARM lacks them.
_OPTIONAL: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "XNNPackDelegateCreate": (c_void_p, (c_void_p,)),
    "XNNPackDelegateDelete": (None, (c_void_p,)),
}


class _Library:
    """The functions of the library by their names without ``TfLite``."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self.has_xnnpack = all(hasattr(library, f"TfLite{name}") for name in _OPTIONAL)
        for name, (returned, taken) in (_FUNCTIONS | (_OPTIONAL if self.has_xnnpack else {})).items():
            function = getattr(library, f"TfLite{name}")
            function.restype, function.argtypes = returned, taken
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"the library's function TfLite{name} is not declared")


@cache
def load() -> _Library:
    """Load the library, once a process. Raises ModelError if there is none that this machine can load."""
    path = library_path()
    try:
        return _Library(path)
    except (OSError, AttributeError) as error:
        raise why_not_loaded(path, error) from error


def library_version() -> str:
    """Return TensorFlow Lite's version; see :func:`load` for the errors."""
    return str(load().Version().decode())


class _Log:
    """Collects what the library says of an error: a C format and its arguments."""

    def __init__(self) -> None:
        self.said: list[str] = []
        printf = ctypes.CDLL(None).vsnprintf
        printf.argtypes = (ctypes.c_char_p, c_size_t, c_char_p, c_void_p)

        def report(_: int | None, text: bytes, arguments: int | None) -> None:
            buffer = ctypes.create_string_buffer(_SAID_BYTES)
            # A va_list is a pointer on aarch64 and x86-64, and a structure of one pointer on ARM: one register each.
            printf(buffer, _SAID_BYTES, text, arguments)
            self.said.append(buffer.value.decode(errors="replace").strip())

        self.reporter = _Reporter(report)

    def take(self) -> str:
        """Return what was said since the last time, and forget it."""
        said, self.said[:] = "; ".join(self.said), []
        return said or "the library says no reason"


class _Tensor:
    """A tensor of the library, and a NumPy view of its memory, renewed when the library moves or resizes it."""

    def __init__(self, library: _Library, pointer: int) -> None:
        self._library, self._pointer = library, c_void_p(pointer)
        self._data, self._size = library.TensorData, library.TensorByteSize
        self._place = (0, 0)
        self.dtype: type = _TYPES.get(library.TensorType(self._pointer), np.void)
        self.shape = self._read_shape()
        self._view: Array = np.empty(0, self.dtype)

    def _read_shape(self) -> tuple[int, ...]:
        count = self._library.TensorNumDims(self._pointer)
        return tuple(self._library.TensorDim(self._pointer, axis) for axis in range(count))

    @property
    def view(self) -> Array:
        """The values as they are now, in the tensor's own memory."""
        place = (self._data(self._pointer) or 0, self._size(self._pointer))
        if place != self._place:
            self._place, self.shape = place, self._read_shape()
            address, size = place
            memory = (ctypes.c_char * size).from_address(address) if size else b""
            self._view = np.frombuffer(memory, self.dtype).reshape(self.shape)
        return self._view


class Interpreter:
    """A graph that the library has opened, for one thread at a time; freed with the last reference to its parts."""

    def __init__(self, model_content: bytes, num_threads: int = 1, *, frozen: bool = False) -> None:
        """Open a TFLite file. Raises ValueError if the library cannot take it; says why.

        ``frozen``: whether it is a network that is never trained, which XNNPACK computes three times as quickly, where
        the library has it. Graphs that train are slower by it: they change their weights.
        """
        self._library = library = load()
        self._log = _Log()
        # The bytes and the reporter must outlive the interpreter: the finaliser holds them.
        model = library.ModelCreateWithErrorReporter(model_content, len(model_content), self._log.reporter, None)
        if not model:
            raise ValueError(self._log.take())
        options = library.InterpreterOptionsCreate()
        library.InterpreterOptionsSetNumThreads(options, num_threads)
        library.InterpreterOptionsSetErrorReporter(options, self._log.reporter, None)
        delegate = library.XNNPackDelegateCreate(None) if frozen and library.has_xnnpack else None
        if delegate:
            library.InterpreterOptionsAddDelegate(options, delegate)
        self._handle = library.InterpreterCreate(model, options)
        library.InterpreterOptionsDelete(options)
        if not self._handle:
            _delete(library, None, model, delegate)
            raise ValueError(self._log.take())
        self._inputs: list[_Tensor] = []
        self._outputs: list[_Tensor] = []
        weakref.finalize(self, _delete, library, self._handle, model, delegate, (model_content, self._log))

    def get_signature_runner(self, name: str) -> Signature:
        """Return a signature as a callable. Raises ValueError if the graph has none of that name."""
        library = self._library
        names = [
            library.InterpreterGetSignatureKey(self._handle, index).decode()
            for index in range(library.InterpreterGetSignatureCount(self._handle))
        ]
        if name not in names:
            raise ValueError(f"it has no signature {name!r} but {', '.join(names) or 'none'}")
        return Signature(self, library, library.InterpreterGetSignatureRunner(self._handle, name.encode()), self._log)

    def allocate_tensors(self) -> None:
        """Give the graph's main network its memory. Raises RuntimeError, with the library's reason."""
        library, handle = self._library, self._handle
        self._checked(library.InterpreterAllocateTensors(handle))
        counts = library.InterpreterGetInputTensorCount(handle), library.InterpreterGetOutputTensorCount(handle)
        self._inputs = [_Tensor(library, library.InterpreterGetInputTensor(handle, i)) for i in range(counts[0])]
        self._outputs = [_Tensor(library, library.InterpreterGetOutputTensor(handle, i)) for i in range(counts[1])]

    def get_input_details(self) -> list[dict[str, Any]]:
        """Return index and shape of every input."""
        return [{"index": index, "shape": tensor.shape} for index, tensor in enumerate(self._inputs)]

    def get_output_details(self) -> list[dict[str, Any]]:
        """Return index and shape of every output."""
        return [{"index": index, "shape": tensor.shape} for index, tensor in enumerate(self._outputs)]

    def set_tensor(self, index: int, value: Array) -> None:
        """Set an input."""
        self._inputs[index].view[...] = value

    def get_tensor(self, index: int) -> Array:
        """Return a copy of an output."""
        return self._outputs[index].view.copy()

    def invoke(self) -> None:
        """Run the main network. Raises RuntimeError, with the library's reason."""
        self._checked(self._library.InterpreterInvoke(self._handle))

    def _checked(self, status: int) -> None:
        if status:
            raise RuntimeError(self._log.take())


class Signature:
    """One signature of a graph, called with its inputs by name; returns copies of its outputs by name."""

    def __init__(self, owner: Interpreter, library: _Library, handle: int, log: _Log) -> None:
        self._owner, self._library, self._log = owner, library, log
        self._handle = c_void_p(handle)
        self._invoke = library.SignatureRunnerInvoke
        self._inputs: dict[str, _Tensor] = {}
        for index in range(library.SignatureRunnerGetInputCount(handle)):
            name = library.SignatureRunnerGetInputName(handle, index)
            self._inputs[name.decode()] = _Tensor(library, library.SignatureRunnerGetInputTensor(handle, name))
        self._outputs: dict[str, _Tensor] = {}
        # Of the inputs' memory, from one allocation to the next; None where it is to be allocated.
        self._views: dict[str, Array] | None = None
        weakref.finalize(self, _free_signature, library, handle, owner)

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Return the shape of every input by its name."""
        return {name: {"shape": np.array(tensor.shape)} for name, tensor in self._inputs.items()}

    def __call__(self, **values: Array) -> dict[str, Array]:
        """Run the signature. Raises ValueError if an input does not fit, ModelError if it cannot be run; says why."""
        if self._views is None or not _write(values, self._views):
            _write(values, self._fit(values))
        self._checked(self._invoke(self._handle))
        return {name: tensor.view.copy() for name, tensor in self._outputs.items()}

    def _fit(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Give the tensors the shapes of these inputs; return views of them."""
        if values.keys() != self._inputs.keys():
            raise ValueError(f"it takes {', '.join(sorted(self._inputs))}, not {', '.join(sorted(values))}")
        for name, value in values.items():
            if value.dtype != (wanted := self._inputs[name].dtype):
                raise ValueError(f"input {name!r} is {np.dtype(wanted).name}, not {value.dtype.name}")
        self._views = None
        library, handle = self._library, self._handle
        for name, value in values.items():
            if value.shape != self._inputs[name].shape:
                shape = (c_int32 * value.ndim)(*value.shape)
                self._checked(library.SignatureRunnerResizeInputTensor(handle, name.encode(), shape, value.ndim))
        self._checked(library.SignatureRunnerAllocateTensors(handle))
        for name in values:
            self._inputs[name] = _Tensor(library, library.SignatureRunnerGetInputTensor(handle, name.encode()))
        self._outputs = {}
        for index in range(library.SignatureRunnerGetOutputCount(handle)):
            output = library.SignatureRunnerGetOutputName(handle, index)
            tensor = library.SignatureRunnerGetOutputTensor(handle, output)
            self._outputs[output.decode()] = _Tensor(library, tensor)
        self._views = {name: tensor.view for name, tensor in self._inputs.items()}
        return self._views

    def _checked(self, status: int) -> None:
        if status:
            self._views = None
            raise ModelError(
                f"the graph cannot be computed ({self._log.take()}): TensorFlow Lite {library_version()} takes no such "
                "inputs or operators; build it again with this version's `auricle-export`"
            )


def _write(values: Mapping[str, Array], views: Mapping[str, Array]) -> bool:
    """Write inputs into their tensors; return False where names, shapes or types are not those of the tensors."""
    if len(values) != len(views):
        return False
    for name, view in views.items():
        value = values.get(name)
        if value is None or value.shape != view.shape or value.dtype != view.dtype:
            return False
        view[...] = value
    return True


def _delete(library: _Library, interpreter: int | None, model: int, delegate: int | None, _kept: object = None) -> None:
    if interpreter:
        library.InterpreterDelete(interpreter)
    if delegate:  # which must outlive it
        library.XNNPackDelegateDelete(delegate)
    library.ModelDelete(model)


def _free_signature(library: _Library, runner: int, _owner: Interpreter) -> None:
    library.SignatureRunnerDelete(runner)
