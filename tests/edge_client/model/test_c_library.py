"""TensorFlow Lite's C library computes what the Python wheels compute, keeps no memory, and says what is wrong."""

import gc
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edge_client.errors import ModelError
from edge_client.model import c_library
from edge_client.model.c_library import Interpreter
from edge_client.model.interpreter import open_network
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle
from tests.support.checkout import ROOT, require_runtime

CAPACITY = 32


@pytest.fixture(autouse=True)
def _there(monkeypatch):
    require_runtime("c")
    monkeypatch.setenv("AURICLE_RUNTIME", "c")


@pytest.fixture
def graph(bundles):
    return read_bundle(bundles["cnn2"]).graph


def trained(bundle: Path) -> dict[str, np.ndarray]:
    """What five steps on fixed clips lead to: weights, probabilities, embeddings, a gradient."""
    runtime, generator = ModelRuntime.open(bundle), np.random.default_rng(0)
    shape, batch = runtime.manifest.input_shape, runtime.manifest.batch
    mask = np.zeros(CAPACITY, np.float32)
    mask[:5] = 1
    for rows in (batch, batch, 3, batch, 1):
        x = generator.normal(size=(rows, *shape)).astype(np.float32)
        targets = np.eye(CAPACITY, dtype=np.float32)[generator.integers(0, 5, rows)]
        runtime.train_step(x, targets, mask, learning_rate=0.05)
    found = {"predict": runtime.predict(x, mask), "embed": runtime.embed(x)}
    found["gradient"], _ = runtime.input_gradient(x, targets, mask)
    return runtime.get_weights() | found


@pytest.mark.parametrize("name", ["cnn1", "cnn2", "dscnn3", "ann3"])
def test_it_trains_to_the_bytes_of_the_wheel_for_arm(bundles, name, monkeypatch):
    require_runtime("tflite")
    ours = trained(bundles[name])
    monkeypatch.setenv("AURICLE_RUNTIME", "tflite")
    for what, value in trained(bundles[name]).items():
        np.testing.assert_array_equal(ours[what], value, err_msg=what)


def memory_kb() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def test_what_is_closed_gives_its_memory_back(graph):
    def open_and_call(times: int) -> int:
        for _ in range(times):
            interpreter = Interpreter(graph)
            interpreter.get_signature_runner("get_weights")()
            interpreter.get_signature_runner("embed")(x=np.zeros((2, 20, 13), np.float32))
        return memory_kb()

    before = open_and_call(100)
    # One interpreter takes about 500 kB: a leak of a hundredth of each would show.
    assert open_and_call(400) - before < 2_000


def test_a_signature_outlives_the_name_of_its_interpreter(graph):
    embed = Interpreter(graph).get_signature_runner("embed")
    gc.collect()
    first = embed(x=np.zeros((2, 20, 13), np.float32))["embedding"]
    kept = first.copy()
    assert embed(x=np.ones((5, 20, 13), np.float32))["embedding"].shape == (5, *first.shape[1:])
    np.testing.assert_array_equal(first, kept)  # a copy: the next call does not write into it
    np.testing.assert_array_equal(embed(x=np.zeros((2, 20, 13), np.float32))["embedding"], kept)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "it takes x, not"),
        ({"x": np.zeros((1, 20, 13), np.float32), "y": np.zeros(1, np.float32)}, "it takes x, not x, y"),
        ({"x": np.zeros((1, 20, 13))}, "input 'x' is float32, not float64"),
    ],
)
def test_inputs_that_the_graph_does_not_take_are_refused(graph, inputs, message):
    with pytest.raises(ValueError, match=message):
        Interpreter(graph).get_signature_runner("embed")(**inputs)


def test_a_shape_that_the_graph_cannot_compute_is_refused_and_the_next_call_works(graph):
    embed = Interpreter(graph).get_signature_runner("embed")
    with pytest.raises(RuntimeError, match=r"\w+"):
        embed(x=np.zeros((1, 20, 14), np.float32))
    assert np.isfinite(embed(x=np.zeros((1, 20, 13), np.float32))["embedding"]).all()


def test_bytes_that_are_no_graph_are_refused_with_the_reason():
    for damaged in (b"", b"no graph" * 20):
        with pytest.raises(ModelError, match="pymicro-wakeword cannot take this network"):
            open_network(damaged)


def test_a_signature_that_is_not_there_is_named_with_those_that_are(graph):
    with pytest.raises(ValueError, match=r"it has no signature 'fit' but embed, .*train"):
        Interpreter(graph).get_signature_runner("fit")


OPEN = """
from edge_client.model.c_library import Interpreter
try:
    Interpreter(b"")
except (ImportError, ValueError) as error:
    print(type(error).__name__, error)
"""


def opened(**environment: str) -> str:
    """What opening an empty graph says, in a process of its own: the library is loaded once for each."""
    command = [sys.executable, "-c", OPEN]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_library_of_ones_own_is_taken_and_one_that_is_none_is_refused(tmp_path):
    own = tmp_path / "libtensorflowlite_c.so"
    assert "which is no file; unset it" in opened(AURICLE_TFLITE_LIBRARY=str(own))
    own.write_bytes(b"\x7fELF and nothing else")
    assert f"ImportError {own} cannot be loaded" in opened(AURICLE_TFLITE_LIBRARY=str(own))
    shutil.copy(c_library.library_path(), own)
    assert "ValueError" in opened(AURICLE_TFLITE_LIBRARY=str(own))  # it is loaded, and refuses the empty graph


def test_a_library_that_was_changed_is_refused(tmp_path, monkeypatch):
    changed = tmp_path / "libtensorflowlite_c.so"
    changed.write_bytes(c_library.library_path().read_bytes()[:-1] + b"x")
    monkeypatch.setattr(c_library, "_FILE", str(changed))
    with pytest.raises(ImportError, match=r"is not a library that Auricle was tested with; install the version"):
        c_library.library_path()
