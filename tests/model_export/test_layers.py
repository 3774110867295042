"""The device's layers compute what Keras's own compute, forwards and backwards."""

import json

import pytest

from tests.support.checkout import run_python


@pytest.mark.slow
def test_layers_equal_keras_own_in_output_gradients_and_fit():
    differences = json.loads(run_python("-m", "tests.support.layer_checks").splitlines()[-1])
    assert len(differences) > 40
    assert {name: error for name, error in differences.items() if not error < 1e-5} == {}
