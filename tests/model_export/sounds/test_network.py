"""The network of the front end for sounds: against plain NumPy, as a graph, and its weights' file."""

import os

import numpy as np
import pytest

from edge_client.errors import ModelError
from edge_client.model.interpreter import open_network
from model_export.errors import ExportError
from model_export.graph_operators import operators_by_signature
from model_export.sounds import weights
from tests.support.checkout import DATA, run_python
from tests.support.efficientat import HALF_SECOND, embeddings, random_arrays, random_features

FAST = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "MUL", "MEAN", "PAD", "LOGISTIC", "HARD_SWISH"}
MODELS = DATA.parent / "models" / "efficientat_mn04" / "weights.safetensors"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    run_python("-m", "tests.support.efficientat", str(folder))
    return dict(np.load(folder / "made.npz")), (folder / "graph.tflite").read_bytes()


def test_it_is_the_network_of_the_paper(made):
    found, _ = made
    right = embeddings(random_arrays(0), random_features(3, HALF_SECOND))
    assert right.std(axis=0).max() > 0.1  # it hears a difference between clips
    np.testing.assert_allclose(found["whole"] / right.std(), right / right.std(), atol=1e-4)


def test_its_graph_takes_clips_of_any_length(made):
    found, graph = made
    network = open_network(graph)
    scale = found["projected"].std()
    np.testing.assert_allclose(network(random_features(3, HALF_SECOND)) / scale, found["projected"] / scale, atol=1e-3)
    longer = random_features(2, 98)
    both = network(longer)
    assert both.shape == (2, 12)
    np.testing.assert_array_equal(network(longer[1:]), both[1:])
    assert network(longer[:0]).shape == (0, 12)
    for shape in ((1, 98, 127), (1, 98)):
        with pytest.raises(ModelError, match=r"rows of shape \(any, 128\)"):
            network(np.zeros(shape, np.float32))


def test_its_operators_are_built_in_and_fast_on_32_bit_arm(made):
    found, graph = made
    (operators,) = operators_by_signature(graph).values()
    assert set(operators) <= FAST | {"DEQUANTIZE", "EXPAND_DIMS"}
    assert operators["HARD_SWISH"] == 20  # one operator each, not three
    assert len(graph) < 1_200_000
    one, two = found["multiply_adds"]
    assert 11e6 < one < 14e6
    assert 1.7 * one < two < 2.1 * one


@pytest.mark.skipif(not MODELS.is_file(), reason="the weights are not here")
def test_the_weights_that_are_known_are_of_this_network():
    arrays = weights.read(MODELS)
    expected = random_arrays(0)
    held = {name: array.shape for name, array in arrays.items() if name.startswith("features.")}
    assert {name: shape for name, shape in held.items() if "num_batches" not in name} == {
        name: array.shape for name, array in expected.items()
    }
    assert weights.count(weights.fold(arrays)) < 520_000


def test_other_weights_are_refused_by_their_digest(tmp_path):
    file = tmp_path / "weights.safetensors"
    file.write_bytes(os.urandom(100))
    with pytest.raises(ExportError, match=r"digest [0-9a-f]{64}, but 44657b78"):
        weights.read(file)
    with pytest.raises(ExportError, match=r"cannot be read .*--weights"):
        weights.read(tmp_path / "none")
