"""Reads a TFLite flatbuffer: which operators each signature runs, and whether a device's runtime has them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from model_export.errors import OperatorError

OperatorCode = Any


def operators_by_signature(graph: bytes) -> dict[str, Counter[str]]:
    """Count the operators of every signature, by name; an operator that is not built in counts as ``CUSTOM:name``.

    A graph without signatures has one entry, ``main``. Subgraphs that no signature names (such as the one that
    creates the variables) stand under their own names.

    Raises:
        OperatorError: the bytes are no TFLite graph.
    """
    if graph[4:8] != b"TFL3":
        raise OperatorError(f"not a TFLite graph: it starts with {graph[:8]!r}")
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(graph, 0))
    builtin = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    names = [_name(code, builtin) for code in model.operatorCodes]
    keys = {signature.subgraphIndex: signature.signatureKey.decode() for signature in model.signatureDefs or []}
    return {
        keys.get(index, subgraph.name.decode()): Counter(names[op.opcodeIndex] for op in subgraph.operators)
        for index, subgraph in enumerate(model.subgraphs)
    }


def _name(code: OperatorCode, builtin: dict[int, str]) -> str:
    # Codes up to 127 also stand in an older, narrower field; the larger of the two is the code.
    name = builtin.get(max(code.builtinCode, code.deprecatedBuiltinCode), "UNKNOWN")
    return name if code.customCode is None else f"CUSTOM:{code.customCode.decode()}"


def require_builtin(graph: bytes) -> None:
    """Refuse a graph that needs more than built-in operators.

    Raises:
        OperatorError: naming the operators and the signatures that need them.
    """
    foreign = {
        signature: sorted(name for name in operators if name.startswith(("CUSTOM", "UNKNOWN")))
        for signature, operators in operators_by_signature(graph).items()
    }
    if any(foreign.values()):
        where = "; ".join(f"{signature}: {', '.join(names)}" for signature, names in foreign.items() if names)
        raise OperatorError(
            f"the graph needs operators that no device's runtime has ({where}); "
            "write the layer in built-in operators, as model_export/operators.py does"
        )
