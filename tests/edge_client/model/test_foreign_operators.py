"""A graph with an operator that the library lacks is refused with the operator's name and the way out."""

import numpy as np
import pytest

from edge_client.errors import ModelError
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle, write_bundle


def with_foreign(graph: bytes, change) -> bytes:
    """Return a graph whose first convolution is changed."""
    # What builds bundles brings both; a board has neither.
    flatbuffers = pytest.importorskip("flatbuffers")
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(graph, 0)
    change(next(code for code in model.operatorCodes if code.builtinCode == schema.BuiltinOperator.CONV_2D), schema)
    builder = flatbuffers.Builder(len(graph))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def custom(code, schema):
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = b"NoSuchOperator"


def newer(code, _schema):
    code.version = 99


@pytest.mark.slow
@pytest.mark.parametrize(("change", "operator"), [(custom, "NoSuchOperator"), (newer, "CONV_2D' version '99'")])
def test_a_bundle_that_needs_another_operator_is_refused_by_its_name(bundles, tmp_path, change, operator):
    bundle = read_bundle(bundles["cnn1"])
    path = tmp_path / "foreign.auricle"
    path.write_bytes(write_bundle(bundle.manifest, with_foreign(bundle.graph, change), bundle.weights))
    clip = np.zeros((1, *bundle.manifest.input_shape), np.float32)
    with pytest.raises(ModelError, match=operator) as refusal:
        ModelRuntime.open(path).embed(clip)
    assert "build" in str(refusal.value)
    assert "auricle-export" in str(refusal.value)
