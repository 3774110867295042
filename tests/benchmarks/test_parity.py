"""A bundle trains on a device exactly as a stock Keras model trains with Keras's optimiser."""

import json

import pytest

from benchmarks.parity.variants import STEPS, VARIANTS
from tests.support.checkout import run_python
from tests.support.parity_references import FEW_STEPS, FEWER_LARGER, larger_references, references

# Building and training all of them once, which counts as part of the first test, takes minutes on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="session")
def differences():
    """Every variant trained, in a process of its own."""
    return trained(references(), STEPS, VARIANTS)


@pytest.fixture(scope="session")
def larger_differences():
    """Every larger network trained, in a process of its own."""
    return trained(larger_references(), FEW_STEPS, FEWER_LARGER)


def trained(references, steps, variants):
    arguments = ("-m", "benchmarks.parity.device", str(references), str(steps), *variants)
    return json.loads(run_python(*arguments).splitlines()[-1])


@pytest.mark.parametrize("name", FEWER_LARGER)
def test_a_larger_network_trains_as_keras_does(larger_differences, name):
    result = larger_differences[name]
    # Of a million activations one or two lie within rounding of ReLU's kink; each moves all gradients before it by 1 %.
    exact = 0.03 if name == "resnet15" else 1e-4
    for kind, tolerance in (("gradients", exact), ("weights", 1e-3), ("movements", 0.04), ("values", 1e-4)):
        assert {what: error for what, error in result[kind].items() if error > tolerance} == {}


@pytest.mark.parametrize("variant", VARIANTS)
def test_fifty_steps_are_kerass(differences, variant):
    result = differences[variant]
    # A momentum that is off by a hundredth moves weights 5 % differently; one activation at ReLU's kink, under 1 %.
    for kind, tolerance in (("gradients", 1e-4), ("weights", 1e-3), ("movements", 0.04), ("values", 1e-4)):
        assert {what: error for what, error in result[kind].items() if error > tolerance} == {}, kind
