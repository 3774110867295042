"""A bundle trains on a device exactly as a stock Keras model trains with Keras's optimiser."""

import json
import shutil

import pytest
from conftest import built, require_runtime, run_python

from benchmarks.parity.variants import BATCH, LARGER, STEPS, VARIANTS

# All steps of the large networks take minutes; `python -m benchmarks.parity` takes them.
FEW_STEPS, SMALL_BATCH = 5, 6
ALL = [*VARIANTS, *LARGER]
# Building and training all of them once, which counts as part of the first test, takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="session")
def references(bundles):
    """Bundles of every variant, and beside them what stock Keras made of the same batches."""

    def make(folder):
        for name, path in bundles.items():
            shutil.copy(path, folder / f"{name}.auricle")
        run_python("-m", "benchmarks.parity.reference", str(folder), str(STEPS), str(BATCH), *VARIANTS)
        run_python("-m", "benchmarks.parity.reference", str(folder), str(FEW_STEPS), str(SMALL_BATCH), *LARGER)

    return built("parity", make)


@pytest.fixture(scope="session", params=["tflite", "litert"])
def differences(request, references):
    """Every variant trained on one runtime, in processes of their own."""
    require_runtime(request.param)

    def trained(steps, variants):
        arguments = ("-m", "benchmarks.parity.device", str(references), str(steps), *variants)
        return json.loads(run_python(*arguments, AURICLE_RUNTIME=request.param).splitlines()[-1])

    return trained(STEPS, VARIANTS) | trained(FEW_STEPS, LARGER)


@pytest.mark.parametrize("variant", ALL)
def test_every_gradient_of_the_first_step_is_kerass(differences, variant):
    assert {name: error for name, error in differences[variant]["gradients"].items() if error > 1e-4} == {}


@pytest.mark.parametrize("variant", ALL)
def test_the_steps_lead_to_kerass_weights(differences, variant):
    assert {layer: error for layer, error in differences[variant]["weights"].items() if error > 1e-3} == {}
    # A momentum that is off by a hundredth moves them 5 % differently; one activation at ReLU's kink, under 1 %.
    assert {layer: error for layer, error in differences[variant]["movements"].items() if error > 0.04} == {}


@pytest.mark.parametrize("variant", ALL)
def test_losses_and_probabilities_are_kerass(differences, variant):
    assert {name: error for name, error in differences[variant]["values"].items() if error > 1e-4} == {}


def test_each_runtime_ran_where_it_was_asked_for(differences, request):
    wanted = {"tflite": "tflite-runtime", "litert": "ai-edge-litert"}[request.node.callspec.params["differences"]]
    assert {result["runtime"] for result in differences.values()} == {wanted}
