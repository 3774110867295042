"""The cost of training is counted from the graph, and a network that a Pi 2 cannot train says so."""

import pytest

from fleet_protocol.bundle import read_bundle
from model_export.cost import describe, training_multiply_adds
from tests.support.checkout import built, run_python


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
