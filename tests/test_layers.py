"""The device's layers compute what Keras's own compute, forwards and backwards."""

import json

from conftest import run_python


def test_layers_equal_keras_own_in_output_gradients_and_fit():
    differences = json.loads(run_python("tests/layer_checks.py").splitlines()[-1])
    assert len(differences) > 40
    assert {name: error for name, error in differences.items() if not error < 1e-5} == {}
