"""Arrays that were packed: reading them without a copy gives what reading them with checks gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fleet_protocol.tensors import pack, unpack, view

KINDS = st.sampled_from([np.float32, np.float64, np.int64, np.bool_])
SHAPES = array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)
# tflite-runtime makes its process on ARMv7 flush subnormal numbers to zero.
ARRAYS = KINDS.flatmap(lambda kind: arrays(kind, SHAPES, elements={"allow_subnormal": False}))


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"), ARRAYS, max_size=4))
def test_a_view_is_what_unpacking_gives(given_arrays):
    data = pack(given_arrays, {"device": "a"})
    unpacked, seen = unpack(data)[0], view(data)
    assert set(seen) == set(unpacked) == set(given_arrays)
    for name, array in seen.items():
        assert (array.dtype, array.shape) == (given_arrays[name].dtype, given_arrays[name].shape)
        assert array.tobytes() == unpacked[name].tobytes() == given_arrays[name].tobytes()


def test_a_view_cannot_change_the_bytes_that_it_looks_into():
    seen = view(pack({"w": np.ones(3, np.float32)}, {}))["w"]
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 2
