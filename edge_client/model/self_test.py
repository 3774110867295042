"""The runtime's self-test: one training step whose result is known, before a device trusts what is computed.

A library that was damaged or built wrongly, or a processor that fails, computes wrong numbers without an error.
"""

import numpy as np

from edge_client.errors import ModelError
from edge_client.model.interpreter import describe_runtime
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.numbers.arrays import Array, Floats

_BUNDLE = "cnn2"
_CLASSES, _RATE = 10, 0.05
# Projections of the step's results, about which Keras and TensorFlow Lite agree to 1e-6 of their length.
_EXPECTED = {
    "the loss": 2.3144515,
    "conv1/bias": 1.3194501e-4,
    "conv1/kernel": -6.0923435e-3,
    "conv2/bias": 3.0681825e-4,
    "conv2/kernel": -1.8199441e-3,
    "head/bias": -1.2637612e-3,
    "head/kernel": 3.8509370e-4,
    "a probability": -1.0165205e-1,
}
_TOLERANCE = 1e-3


def check_runtime() -> None:
    """Take the step, in milliseconds, and compare its results. Raises ModelError where it is wrong, or not possible."""
    for name, (found, length) in _results().items():
        if not abs(found - _EXPECTED[name]) <= _TOLERANCE * length:  # a NaN is wrong, too
            raise ModelError(
                f"{describe_runtime()} computes wrongly on this machine: {name} after one training step is {found:.6g} "
                f"and should be {_EXPECTED[name]:.6g}; install the runtime anew, and if it persists, test the board's "
                "memory and power supply"
            )


def _results() -> dict[str, tuple[float, float]]:
    """Return a projection of each result, and the length to measure its error by."""
    model = ModelRuntime(read_bundle(find_bundle(_BUNDLE)))
    batch, capacity = model.manifest.batch, model.manifest.capacity
    x = _numbers(batch, *model.manifest.input_shape)
    targets = np.eye(capacity, dtype=np.float32)[np.arange(batch) % _CLASSES]
    mask = (np.arange(capacity) < _CLASSES).astype(np.float32)
    before = model.get_weights()
    loss = model.train_step(x, targets, mask, learning_rate=_RATE)
    found = {name: _projected(after - before[name]) for name, after in model.get_weights().items()}
    return {"the loss": (loss, abs(loss)), **found, "a probability": _projected(model.predict(x[:4], mask))}


def _projected(array: Array) -> tuple[float, float]:
    """Return the sum of an array's values, each times a number of its own, and the length of these products."""
    products = array.astype(np.float64) * _numbers(*array.shape)
    return float(products.sum()), float(np.linalg.norm(products))


def _numbers(*shape: int) -> Floats:
    """Return numbers from -1 to 1 without an order to see, the same ones everywhere."""
    count = np.arange(1, 1 + int(np.prod(shape)), dtype=np.uint64)
    return ((count * 2_654_435_761 % 2**32) / 2**31 - 1).astype(np.float32).reshape(shape)
