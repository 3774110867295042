"""Networks have the sizes and the cost that their papers give, and layers compute what Keras's own compute."""

import json

import pytest

from fleet_protocol.bundle.bundle_file import read_bundle
from model_export.cost import describe, training_multiply_adds
from tests.support.checkout import built, run_python


@pytest.fixture(scope="module")
def measured():
    """What TensorFlow says of layers and networks, in a process of its own."""
    return json.loads(run_python("-m", "tests.support.layer_checks").splitlines()[-1])


@pytest.mark.slow
def test_networks_have_the_number_of_weights_that_fedkws_ui_reports(measured):
    published = {"dscnn_172": (169, 173), "mhattrnn": (228, 232), "resnet15": (238, 239), "transformer": (232, 234)}
    wanted = {
        f"{name} {classes}": size
        for name, pair in published.items()
        for classes, size in zip((12, 35), pair, strict=True)
    }
    assert {name: round(size / 1000) for name, size in measured["weights"].items()} == {
        **wanted,
        "dscnn_172 12": 168,
        "dscnn_172 35": 172,
    }


@pytest.mark.slow
def test_layers_equal_keras_own_in_output_gradients_and_fit(measured):
    differences = measured["differences"]
    assert len(differences) > 40
    assert {name: error for name, error in differences.items() if not error < 1e-5} == {}


def test_the_count_is_the_one_by_hand(bundles):
    bundle = read_bundle(bundles["cnn2"])
    first, second, head = 10 * 7 * 25 * 16, 8 * 5 * 9 * 16 * 32, 160 * 32
    # Forward, gradient of the kernel and, but for the first layer, of the input.
    assert training_multiply_adds(bundle.graph, bundle.manifest.batch) == 2 * first + 3 * second + 3 * head


def test_recurrent_steps_are_counted_each():
    folder = built(
        "crnn-tiny", lambda making: run_python("-m", "model_export.cli", "build", "crnn_tiny", "-o", f"{making}/")
    )
    bundle = read_bundle(folder / "crnn_tiny.auricle")
    convolution, head = 20 * 3 * 13 * 16, 32 * 32
    of_input, of_state = 16 * 96, 32 * 96
    # The first state's gradient goes nowhere.
    expected = 2 * convolution + 3 * head + 3 * 10 * of_input + (3 * 10 - 1) * of_state
    assert training_multiply_adds(bundle.graph, bundle.manifest.batch) == expected


@pytest.mark.parametrize(
    ("multiply_adds", "seconds", "too_large"),
    [(624_320, "0.7 s", False), (54_000_000, "60.0 s", False), (185_020_000, "205.6 s", True)],
)
def test_what_a_pi_needs_at_least_is_said_and_whether_that_is_too_much(multiply_adds, seconds, too_large):
    line = describe(multiply_adds)
    assert f"{multiply_adds / 1e6:.2f} million multiply-adds" in line
    assert f"at least {seconds} per 1,000 samples" in line
    assert line.endswith("which is TOO LARGE for that board") == too_large
