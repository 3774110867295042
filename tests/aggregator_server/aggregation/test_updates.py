"""The matrix of uploads: rows by device id, a layer's arrays side by side, and uploads that do not fit refused."""

import numpy as np
import pytest

from aggregator_server.aggregation import aggregate_weights, stack_updates
from aggregator_server.aggregation import updates as module
from aggregator_server.aggregation.updates import stable_order
from aggregator_server.errors import AggregationError
from fleet_protocol.messages.rest import Choice
from tests.support.update_sets import LAYOUT, WIDTH, matrix

ARRAYS = {
    "head.kernel": np.array([[4, 5, 6]], np.float32),
    "conv.bias": np.array([3], np.float32),
    "conv.kernel": np.array([[1], [2]], np.float32),
}


def test_a_row_holds_layer_after_layer_kernel_before_bias_whatever_the_order_of_the_arrays():
    row = LAYOUT.flatten(ARRAYS)
    np.testing.assert_array_equal(row, [1, 2, 3, 4, 5, 6])
    assert LAYOUT.layer_columns == {"conv": slice(0, 3), "head": slice(3, 6)}
    back = LAYOUT.split(row)
    assert set(back) == set(ARRAYS)
    for name, array in back.items():
        np.testing.assert_array_equal(array, ARRAYS[name])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"conv.bias": None}, ["device b", "'conv.bias'", "missing"]),
        ({"conv.bias": np.zeros(2, np.float32)}, ["device b", "'conv.bias'", "(1,)", "(2,)"]),
        ({"conv.bias": np.zeros(1)}, ["device b", "'conv.bias'", "float32", "float64"]),
    ],
)
def test_an_upload_that_does_not_fit_is_refused_by_device_and_array(changed, words):
    wrong = {name: array for name, array in (ARRAYS | changed).items() if array is not None}
    with pytest.raises(AggregationError) as refused:
        stack_updates(LAYOUT, {"a": lambda: ARRAYS, "b": lambda: wrong})
    assert all(word in str(refused.value) for word in words)


def test_values_that_agree_to_six_digits_keep_their_order():
    assert stable_order([3.0, 1.0000000001, 1.0, 2.0]).tolist() == [1, 2, 3, 0]
    assert stable_order([3.0, 1.00001, 1.0, 2.0]).tolist() == [2, 1, 3, 0]
    assert stable_order([1e80, 0.0, 1e80, 0.0]).tolist() == [1, 3, 0, 2]
    assert stable_order([5.0]).tolist() == [0]


DEVICES = 601


def placed(in_memory_bytes, monkeypatch, columns=2, folder=None):
    """Uploads near one another, a tenth of them far off and one turned around; the same ones wherever they lie."""
    monkeypatch.setattr(module, "IN_MEMORY_BYTES", in_memory_bytes)
    monkeypatch.setattr(module, "_NUMBERS", columns * DEVICES)
    monkeypatch.setattr(module, "_FEWEST_COLUMNS", 1)
    rng = np.random.default_rng(3)
    rows = (1 + 0.01 * rng.standard_normal((DEVICES, WIDTH))).astype(np.float32)
    rows[::10] += rng.standard_normal((61, WIDTH)).astype(np.float32)
    rows[5] = -rows[5]
    uploads = {f"{n:04d}": lambda n=n: LAYOUT.split(rows[n]) for n in range(DEVICES)}
    return stack_updates(LAYOUT, uploads, folder), rows


@pytest.mark.parametrize("columns", [1, 2, 100])
def test_a_mapped_file_without_a_name_holds_the_rows_that_were_uploaded(columns, monkeypatch, tmp_path):
    fleet, rows = placed(0, monkeypatch, columns, tmp_path)
    assert fleet.mapping is not None
    np.testing.assert_array_equal(matrix(fleet), rows)
    assert not list(tmp_path.iterdir()), "the file has a name, so that a kill would leave it there"


RULES = {
    "lpa": Choice("lpa", {"v_l": 0.1, "v_h": 0.1}),
    "weighted_mean": Choice("weighted_mean"),
    "median": Choice("median"),
    "screened_mean": Choice("screened_mean"),
    "trimmed_mean": Choice("trimmed_mean", {"trim": 0.1}),
    "krum": Choice("krum", {"byzantine": 0.2}),
    "multi_krum": Choice("multi_krum", {"byzantine": 0.2, "keep": 0.5}),
    "clipped mean, adam": Choice("weighted_mean", {"clip_norm": 5.0, "server_optimiser": "adam"}),
    "screened_mean, clipped": Choice("screened_mean", {"clip_norm": 0.5}),
}


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_comes_to_the_same_bytes_wherever_the_uploads_lie(rule, monkeypatch):
    results = []
    for in_memory in (module.IN_MEMORY_BYTES, 0):
        fleet, _ = placed(in_memory, monkeypatch)
        assert (fleet.mapping is None) == bool(in_memory)
        previous = LAYOUT.split(np.full(WIDTH, 0.5, np.float32))
        weights, state, details = aggregate_weights(RULES[rule], fleet, np.arange(1.0, DEVICES + 1), previous, {})
        results.append((LAYOUT.flatten(weights).tobytes(), {n: a.tobytes() for n, a in state.items()}, details))
    assert results[0] == results[1]
