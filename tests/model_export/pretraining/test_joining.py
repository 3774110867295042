"""What `--beside` names is looked at before it is joined."""

import pytest

from fleet_protocol.numbers.tensors import pack
from model_export.errors import ExportError
from model_export.front_ends import SHIPPED
from model_export.pretraining import front_end_file
from model_export.pretraining.joining import read_first

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("changes", "graph", "message"),
    [
        ({"network": 3}, None, "is of size None with 9 convolutions"),
        ({"network": {"size": ["base"]}}, None, r"is of size \['base'\]"),
        ({"training": None}, None, "must be one network of `auricle-export pretrain`"),
        ({}, b"1234TFL3" + b"\xff" * 50, "the TFLite graph is damaged"),
        ({}, None, "has no classifier of its words: array 'head/kernel' is missing"),
    ],
)
def test_a_file_that_cannot_be_joined_is_explained(tmp_path, changes, graph, message):
    base = front_end_file.read(SHIPPED["base"])
    description = {key: value for key, value in {**base.description, **changes}.items() if value is not None}
    for key in ("format", "version", "files"):
        del description[key]
    statistics = {name: array for name, array in base.statistics.items() if not name.startswith("head/")}
    packed = pack(statistics, base.document)
    path = tmp_path / "mine.frontend"
    path.write_bytes(front_end_file.serialise(description, graph or base.float32, base.int8, packed))
    with pytest.raises(ExportError, match=message):
        read_first(path, 53, base.words)
