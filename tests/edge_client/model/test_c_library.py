"""TensorFlow Lite's C library keeps no memory, and its signatures disturb one another in nothing."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from edge_client.errors import ModelError
from edge_client.model.c_library import Interpreter
from fleet_protocol.bundle.bundle_file import read_bundle

CAPACITY = 32


@pytest.fixture
def graph(bundles):
    return read_bundle(bundles["cnn2"]).graph


def test_signatures_called_by_turns_compute_what_each_computes_alone(graph):
    """Each keeps views of its own tensors, which another one's new shapes must not move."""
    generator = np.random.default_rng(0)
    mask = np.ones(CAPACITY, np.float32)
    temperature = np.array(1.0, np.float32)
    interpreter = Interpreter(graph)
    runners = {name: interpreter.get_signature_runner(name) for name in ("embed", "predict", "input_gradient")}
    for rows in (1, 32, 1, 7, 64, 32, 1):
        x = generator.normal(size=(rows, 20, 13)).astype(np.float32)
        batch = generator.normal(size=(32, 20, 13)).astype(np.float32)
        targets = np.eye(CAPACITY, dtype=np.float32)
        inputs = {
            "embed": {"x": x},
            "predict": {"x": x, "mask": mask, "temperature": temperature},
            "input_gradient": {"x": batch, "targets": targets, "mask": mask, "temperature": temperature},
        }
        for name, values in inputs.items():
            alone = Interpreter(graph).get_signature_runner(name)(**values)
            for what, found in runners[name](**values).items():
                np.testing.assert_array_equal(found, alone[what], err_msg=f"{name} of {rows}: {what}")


def test_what_is_closed_gives_its_memory_back(graph):
    def memory_kb_after(times: int) -> int:
        for _ in range(times):
            interpreter = Interpreter(graph)
            interpreter.get_signature_runner("get_weights")()
            interpreter.get_signature_runner("embed")(x=np.zeros((2, 20, 13), np.float32))
        gc.collect()
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

    before = memory_kb_after(100)
    times = int(os.environ.get("AURICLE_OPENINGS", "800"))
    # One interpreter takes about 500 kB: a leak of a hundredth of each would show. Allocators take 2 MB at once.
    assert memory_kb_after(times) - before < 4_000


def test_a_shape_that_the_graph_cannot_compute_is_refused_and_the_next_call_works(graph):
    embed = Interpreter(graph).get_signature_runner("embed")
    with pytest.raises(ModelError, match=r"the graph cannot be computed \(.*\w.*\): TensorFlow Lite 2\.17"):
        embed(x=np.zeros((1, 20, 14), np.float32))
    assert np.isfinite(embed(x=np.zeros((1, 20, 13), np.float32))["embedding"]).all()
