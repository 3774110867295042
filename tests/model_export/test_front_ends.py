"""A front end's file that lacks what a bundle needs is refused by its name, with what is wrong."""

import json
from pathlib import Path

import pytest

from fleet_protocol.numbers.tensors import pack
from model_export.errors import ExportError
from model_export.front_ends import SHIPPED, find_front_end
from model_export.pretraining import front_end_file

BASE = front_end_file.read(SHIPPED["base"])


def write(path: Path, document=BASE.document, **changes: object) -> str:
    """Write the file of `base` with changes to its description; one that is None is left out."""
    description = {key: value for key, value in {**BASE.description, **changes}.items() if value is not None}
    for key in ("format", "version", "files"):
        description.pop(key, None)
    path.write_bytes(front_end_file.serialise(description, BASE.float32, BASE.int8, pack(BASE.statistics, document)))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": None}, "the feature settings must be an object, not None"),
        ({"features": 5}, "the feature settings must be an object, not 5"),
        ({"features": {"kind": "embedding"}}, "feature setting 'preset' is missing"),
        ({"features": BASE.description["features"] | {"frames": "98"}}, "'frames' must be a int, not '98'"),
        ({"document": {"words": 5}}, "has as its words 5, which is no list of names"),
        ({"document": {"words": ["yes"]}}, "the embedding's statistics do not fit one another"),
    ],
)
def test_a_description_without_what_a_bundle_needs_is_refused(tmp_path, changes, message):
    path = write(tmp_path / "mine.frontend", **changes)
    with pytest.raises(ExportError, match=f"mine.frontend .*{message}"):
        find_front_end(path, "float32")


def test_what_a_bundle_does_not_need_may_be_missing(tmp_path):
    path = write(tmp_path / "mine.frontend", network=None, training=None, attribution=None, name=None)
    found = find_front_end(path, "float32").settings
    assert json.dumps(found.to_json()) == json.dumps(find_front_end("base", "float32").settings.to_json())
