"""Arrays that were packed come back as they were; files that lie about themselves are refused before they are read."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fleet_protocol.bounded_json import JsonBounds, parse_json
from fleet_protocol.errors import JsonError, TensorError
from fleet_protocol.numbers.tensors import TensorBounds, pack, unpack, view

KINDS = st.sampled_from([np.float32, np.float64, np.int64, np.bool_])
SHAPES = array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)
# tflite-runtime makes its process on ARMv7 flush subnormal numbers to zero.
ARRAYS = KINDS.flatmap(lambda kind: arrays(kind, SHAPES, elements={"allow_subnormal": False}))


@given(st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"), ARRAYS, max_size=4))
def test_a_view_is_what_unpacking_gives(given_arrays):
    data = pack(given_arrays, {"device": "a"})
    (unpacked, document), (seen, _) = unpack(data), view(data)
    assert document == {"device": "a"}
    assert set(seen) == set(unpacked) == set(given_arrays)
    for name, array in seen.items():
        assert (array.dtype, array.shape) == (given_arrays[name].dtype, given_arrays[name].shape)
        assert array.tobytes() == unpacked[name].tobytes() == given_arrays[name].tobytes()


def entry(begin=0, end=12, shape=(3,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def file_of(header, data=b"\0" * 12):
    text = header if isinstance(header, bytes) else json.dumps({"__metadata__": {"auricle": "{}"}} | header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes"),
        (b"\xff" * 8, "said to take"),
        (file_of({"a": entry()})[:-1], "bytes 0 to 12 of 11"),
        (file_of({"a": entry()}, bytes(13)), "end at byte 12 of 13"),
        (file_of({"a": entry(), "b": entry()}), "starts at byte 0 and not at 12"),
        (file_of({"a": entry(4, 12, (2,))}), "starts at byte 4"),
        (file_of({"a": entry(shape=(2**40, 2**40))}), "do not hold"),
        (file_of({"a": entry(shape=(-1, -3))}), "at least 0"),
        (file_of({"a": entry(shape=(True, 3))}), "whole numbers"),
        (file_of({"a": entry(12, 0, (0,))}), "do not hold"),
        (file_of({"a": entry(shape=[1] * 9 + [3])}), "whole numbers"),
        (file_of({"a": entry(dtype="BF16")}), "BF16"),
        (file_of({"a": 3}), "'a'"),
        (file_of(b"[1]"), "no JSON object"),
        (file_of(b"\xff"), "not JSON"),
        (file_of({"__metadata__": {"auricle": 5}}, b""), "written by Auricle"),
        (file_of({"__metadata__": {"auricle": "[" * 50 + "]" * 50}}, b""), "nests 50"),
        (file_of({"__metadata__": {"auricle": "3"}}, b""), "JSON object"),
    ],
)
def test_a_file_that_lies_about_itself_is_refused(data, words):
    with pytest.raises(TensorError, match=re.escape(words)):
        view(data)


SMALL = TensorBounds(header=JsonBounds(500, 45, 4), document=JsonBounds(100, 20, 3), arrays=2)


@pytest.mark.parametrize(
    ("arrays", "document", "words"),
    [
        (3, {}, "3 arrays; at most 2"),
        (1, {"a": "x" * 93}, "document has 101 bytes; at most 100"),
        (1, {"a": "x" * 600}, "header has "),
        (1, {"a": [1] * 60}, "the header may hold 7"),
        (1, {"a": [1] * 22}, "document may hold 24 values"),
        (1, {"a": [[[1]]]}, "nests 4"),
    ],
)
def test_a_file_beyond_a_bound_is_refused(arrays, document, words):
    data = pack({str(n): np.zeros(0, np.float32) for n in range(arrays)}, document)
    assert view(data)[1] == document
    with pytest.raises(TensorError, match=words):
        view(data, SMALL)


def test_a_file_at_its_bounds_is_read():
    document = {"a": "x" * 80, "b": [[]]}
    assert view(pack({str(n): np.zeros(0, np.float32) for n in range(2)}, document), SMALL)[1] == document


@given(
    st.recursive(
        st.none() | st.text() | st.floats(allow_nan=False, allow_subnormal=False),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_depth_and_values_are_never_underestimated(value):
    def depth(item):
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        exact = JsonBounds(len(text), 10**6, depth(value))
        assert parse_json(text, exact, "it") == value
        if depth(value):
            with pytest.raises(JsonError, match="nests"):
                parse_json(text, JsonBounds(len(text), 10**6, depth(value) - 1), "it")


def test_a_string_that_hides_brackets_from_the_count_does_not_hide_them_from_the_bound():
    deep = "[" * 40 + "]" * 40
    for text in (deep, f'"\\\\{deep}'[3:], f'["\\"",{deep}]'[5:]):
        with pytest.raises(JsonError):
            parse_json(text.encode(), JsonBounds(1000, 1000, 30), "it")
    with pytest.raises(JsonError, match="not JSON"):
        parse_json(deep.encode("utf-16"), JsonBounds(1000, 1000, 50), "it")
