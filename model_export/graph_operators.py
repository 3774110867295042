"""Reads a TFLite flatbuffer: which operators each signature runs, on what shapes, and whether a runtime has them."""

import contextlib
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from fleet_protocol.numbers.arrays import Array
from model_export.errors import OperatorError

_OperatorCode = Any
Shape = tuple[int, ...]


def operators_by_signature(graph: bytes) -> dict[str, Counter[str]]:
    """Count the operators of every signature, by name; an operator that is not built in counts as ``CUSTOM:name``.

    Subgraphs that no signature names (such as the one that creates the variables) stand under their own names.

    Raises OperatorError: the bytes are no TFLite graph, or a damaged one.
    """
    with _damage_explained():
        model, names, keys = _open(graph)
        subgraphs = [model.Subgraphs(index) for index in range(model.SubgraphsLength())]
        return {
            keys.get(index, (subgraph.Name() or b"").decode()): Counter(
                names[subgraph.Operators(i).OpcodeIndex()] for i in range(subgraph.OperatorsLength())
            )
            for index, subgraph in enumerate(subgraphs)
        }


def read_signature(graph: bytes, key: str) -> list[tuple[str, list[Shape], Shape, bool]]:
    """Return a signature's operators: name, shapes of the inputs, shape of the first output, and, for a product of
    matrices, whether it turns the first around.

    Raises OperatorError: the bytes are no TFLite graph, or a damaged one, or it has no such signature.
    """
    with _damage_explained():
        return list(_signature(graph, key))


def _signature(graph: bytes, key: str) -> Iterator[tuple[str, list[Shape], Shape, bool]]:
    subgraph, _, names = _open_signature(graph, key)

    def shape(tensor: int) -> Shape:
        return tuple(int(size) for size in subgraph.Tensors(tensor).ShapeAsNumpy()) if tensor >= 0 else ()

    for index in range(subgraph.OperatorsLength()):
        operator = subgraph.Operators(index)
        if not operator.OutputsLength():
            continue
        name = names[operator.OpcodeIndex()]
        inputs = [shape(operator.Inputs(i)) for i in range(operator.InputsLength())]
        yield name, inputs, shape(operator.Outputs(0)), name == "BATCH_MATMUL" and _turns_first(operator)


def read_convolutions(graph: bytes, key: str) -> list[tuple[Array, Array]]:
    """Return kernel, as Keras has it, and bias of a signature's convolutions in their order, float32 or float16.

    Raises OperatorError: the bytes are no TFLite graph, or a damaged one, or it has no such signature.
    """
    with _damage_explained():
        return list(_convolutions(graph, key))


def _convolutions(graph: bytes, key: str) -> Iterator[tuple[Array, Array]]:
    subgraph, model, names = _open_signature(graph, key)
    stored: dict[int, int] = {}  # where the float16 of a tensor stands that is float32 at work

    def constant(tensor: int) -> Array:
        found = subgraph.Tensors(stored.get(tensor, tensor))
        data = model.Buffers(found.Buffer()).DataAsNumpy().tobytes()
        return np.frombuffer(data, "<f2" if tensor in stored else "<f4").reshape(found.ShapeAsNumpy())

    for operator in map(subgraph.Operators, range(subgraph.OperatorsLength())):
        name = names[operator.OpcodeIndex()]
        if name == "DEQUANTIZE":
            stored[operator.Outputs(0)] = operator.Inputs(0)
        elif name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            yield constant(operator.Inputs(1)).transpose(1, 2, 3, 0), constant(operator.Inputs(2))


@contextlib.contextmanager
def _damage_explained() -> Iterator[None]:
    try:
        yield
    except (struct.error, AttributeError, LookupError, TypeError, ValueError) as error:  # places outside the bytes
        raise OperatorError(f"the TFLite graph is damaged ({error}); copy or build it again") from error


def _open_signature(graph: bytes, key: str) -> tuple[Any, Any, list[str]]:
    """Return a signature's subgraph, the flatbuffer's model, and the names of its operator codes."""
    model, names, keys = _open(graph)
    found = [index for index, name in keys.items() if name == key]
    if not found:
        raise OperatorError(f"the graph has no signature {key!r}; build it with `auricle-export build`")
    return model.Subgraphs(found[0]), model, names


def _open(graph: bytes) -> tuple[Any, list[str], dict[int, str]]:
    """Return the flatbuffer's model, the names of its operator codes, and those of signatures by subgraph."""
    if graph[4:8] != b"TFL3":
        raise OperatorError(f"not a TFLite graph: it starts with {graph[:8]!r}")
    from ai_edge_litert import schema_py_generated as schema  # TensorFlow's own copy takes seconds to import

    model = schema.Model.GetRootAs(graph, 0)
    builtin = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    names = [_name(model.OperatorCodes(index), builtin) for index in range(model.OperatorCodesLength())]
    signatures = [model.SignatureDefs(index) for index in range(model.SignatureDefsLength())]
    return model, names, {one.SubgraphIndex(): one.SignatureKey().decode() for one in signatures}


def _turns_first(operator: Any) -> bool:  # noqa: ANN401
    from ai_edge_litert import schema_py_generated as schema

    options = schema.BatchMatMulOptions()
    table = operator.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return bool(options.AdjX())


def _name(code: _OperatorCode, builtin: dict[int, str]) -> str:
    # Codes up to 127 also stand in an older, narrower field; the larger of the two is the code.
    name = builtin.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "UNKNOWN")
    return name if code.CustomCode() is None else f"CUSTOM:{code.CustomCode().decode()}"


def require_builtin(graph: bytes) -> None:
    """Refuse a graph that needs more than built-in operators. Raises OperatorError: names these and their users."""
    foreign = {
        signature: sorted(name for name in operators if name.startswith(("CUSTOM", "UNKNOWN")))
        for signature, operators in operators_by_signature(graph).items()
    }
    if any(foreign.values()):
        where = "; ".join(f"{signature}: {', '.join(names)}" for signature, names in foreign.items() if names)
        raise OperatorError(
            f"the graph needs operators that no device's runtime has ({where}); "
            "write the layer in built-in operators, as model_export/layers/operators.py does"
        )
