"""A matrix on disk: rows and columns as they were written, and every rule's result that of the matrix in memory."""

import numpy as np
import pytest

from aggregator_server.aggregation import Updates, aggregate_weights, disk_matrix, krum, stack_updates, updates
from aggregator_server.aggregation.disk_matrix import DiskMatrix
from aggregator_server.aggregation.updates import IN_MEMORY_BYTES
from benchmarks.aggregation import RULES
from fleet_protocol.messages import Choice
from tests.support.update_sets import LAYOUT, WIDTH

DEVICES = 101
# Of blocks: of rows at least 32 are read together, of columns at least one.
SIZES = (64, 1_300, 10**6)


def fleet(in_memory_bytes, block_bytes, monkeypatch, seed=3) -> Updates:
    """Uploads near one another, a tenth of them far off and one turned around; the same ones wherever they lie."""
    monkeypatch.setattr(updates, "IN_MEMORY_BYTES", in_memory_bytes)
    monkeypatch.setattr(disk_matrix, "BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(seed)
    rows = (1 + 0.01 * rng.standard_normal((DEVICES, WIDTH))).astype(np.float32)
    rows[::10] += rng.standard_normal((11, WIDTH)).astype(np.float32)
    rows[5] = -rows[5]
    return stack_updates(LAYOUT, {f"{n:04d}": lambda n=n: LAYOUT.split(rows[n]) for n in range(DEVICES)})


@pytest.mark.parametrize("block_bytes", SIZES)
def test_rows_and_columns_are_those_that_were_written_whatever_the_size_of_a_block(block_bytes, monkeypatch, tmp_path):
    monkeypatch.setattr(disk_matrix, "BLOCK_BYTES", block_bytes)
    expected = np.random.default_rng(1).standard_normal((DEVICES, 9)).astype(np.float32)
    matrix = DiskMatrix(*expected.shape, tmp_path)
    assert matrix.row_step % 32 == 0
    assert not matrix.rows(slice(0, DEVICES)).any()
    for first in range(0, DEVICES, 40):
        matrix.write(first, expected[first : first + 40])
    np.testing.assert_array_equal(matrix.rows(slice(30, 99)), expected[30:99])
    np.testing.assert_array_equal(matrix.columns(slice(2, 7)), expected[:, 2:7].T)
    some = np.array([0, 31, 32, 33, 100])
    np.testing.assert_array_equal(matrix.some_rows(some), expected[some])
    assert not list(tmp_path.iterdir()), "the file has a name, so that a kill would leave it there"


@pytest.mark.parametrize("block_bytes", SIZES)
@pytest.mark.parametrize("rule", [*RULES, "screened_mean, clipped"])
def test_every_rule_comes_to_the_same_bytes_from_disk_and_from_memory(rule, block_bytes, monkeypatch):
    choice = RULES.get(rule, Choice("screened_mean", {"clip_norm": 0.5}))
    monkeypatch.setattr(Updates, "matrix", None)  # which reads all of it into memory: no rule here may
    sizes = np.arange(1.0, DEVICES + 1)
    results = []
    for in_memory in (IN_MEMORY_BYTES, 0):
        state = {}
        for round_seed in (3, 4, 5):
            uploads = fleet(in_memory, block_bytes, monkeypatch, round_seed)
            assert isinstance(uploads.stored, DiskMatrix) == (not in_memory)
            previous = LAYOUT.split(np.full(WIDTH, 0.5, np.float32))
            weights, state, details = aggregate_weights(choice, uploads, sizes, previous, state)
        results.append((LAYOUT.flatten(weights).tobytes(), {n: a.tobytes() for n, a in state.items()}, details))
    assert results[0] == results[1]


def test_a_rule_that_looks_at_the_whole_matrix_gets_it_from_disk_too(monkeypatch):
    in_memory, on_disk = (fleet(size, 1_300, monkeypatch) for size in (IN_MEMORY_BYTES, 0))
    some = np.arange(DEVICES) % 3 != 1
    np.testing.assert_array_equal(on_disk.matrix, in_memory.matrix)
    np.testing.assert_array_equal(on_disk.taken(some).matrix, in_memory.matrix[some])
    again = some[some].copy()
    again[4:50] = False
    np.testing.assert_array_equal(on_disk.taken(some).taken(again).matrix, in_memory.matrix[some][again])


@pytest.mark.parametrize("in_memory", [IN_MEMORY_BYTES, 0])
def test_krum_by_a_sample_chooses_nobody_who_is_far_off_and_does_not_depend_on_blocks(in_memory, monkeypatch):
    monkeypatch.setattr(krum, "EXACT", 50)
    monkeypatch.setattr(krum, "SAMPLE", 40)
    scores = [krum.krum_scores(fleet(in_memory, size, monkeypatch), 0.2).tobytes() for size in SIZES]
    assert len(set(scores)) == 1
    honest = np.flatnonzero((np.arange(DEVICES) % 10 != 0) & (np.arange(DEVICES) != 5))
    best = np.argsort(np.frombuffer(scores[0]))[: len(honest)]
    assert set(best) == set(honest)
