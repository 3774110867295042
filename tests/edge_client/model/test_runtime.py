"""What a device asks of its model: train, predict, differentiate, and say clearly what is wrong."""

import json
import subprocess
import sys

import numpy as np
import pytest

from edge_client.errors import ModelError
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle, write_bundle
from fleet_protocol.errors import BundleError
from tests.support.checkout import ROOT

CAPACITY = 32


@pytest.fixture
def runtime(bundles):
    return ModelRuntime.open(bundles["cnn2"])


@pytest.fixture
def mask():
    return np.concatenate([np.ones(4, np.float32), np.zeros(CAPACITY - 4, np.float32)])


def clips(count, seed=0):
    """Normalised features, and one-hot targets over four classes with a pattern each."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, count)
    patterns = np.random.default_rng(99).normal(size=(4, 20, 13))
    x = patterns[labels] + 0.5 * generator.normal(size=(count, 20, 13))
    return x.astype(np.float32), np.eye(CAPACITY, dtype=np.float32)[labels]


def cross_entropy(probabilities, targets):
    return -(targets * np.log(np.maximum(probabilities, 1e-30))).sum(axis=1)


def test_the_loss_is_the_mean_cross_entropy_before_the_step(runtime, mask):
    for rows in (1, 7, 32):
        x, targets = clips(rows)
        expected = cross_entropy(runtime.predict(x, mask, temperature=2.0), targets).mean()
        loss = runtime.train_step(x, targets, mask, learning_rate=0.0, temperature=2.0)
        assert loss == pytest.approx(expected, rel=1e-5)


def test_a_short_batch_moves_the_weights_as_its_rows_repeated_would(bundles, mask):
    x, targets = clips(8)
    moved = []
    for repeats in (1, 4):
        runtime = ModelRuntime.open(bundles["cnn2"])
        runtime.train_step(np.tile(x, (repeats, 1, 1)), np.tile(targets, (repeats, 1)), mask, learning_rate=0.1)
        moved.append(runtime.get_weights())
    for name in moved[0]:
        np.testing.assert_allclose(moved[0][name], moved[1][name], atol=1e-6)


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 200])
def test_rows_do_not_influence_each_other(runtime, mask, rows):
    x, targets = clips(rows)
    one_by_one = [runtime.predict(row[None], mask)[0] for row in x]
    np.testing.assert_allclose(runtime.predict(x, mask), np.reshape(one_by_one, (rows, CAPACITY)), atol=1e-6)
    embedded = runtime.embed(x)
    assert embedded.shape == (rows, runtime.manifest.embedding)
    gradient, loss = runtime.input_gradient(x, targets, mask)
    assert gradient.shape == (rows, 20, 13)
    assert loss == pytest.approx(cross_entropy(runtime.predict(x, mask), targets).sum(), rel=1e-4)
    if rows:
        alone, _ = runtime.input_gradient(x[-1:], targets[-1:], mask)
        np.testing.assert_allclose(gradient[-1:], alone, atol=1e-6)


def test_the_input_gradient_is_the_slope_of_the_loss(runtime, mask):
    x, targets = clips(1)
    gradient, _ = runtime.input_gradient(x, targets, mask, temperature=1.5)
    step = 0.02 * gradient / np.linalg.norm(gradient)
    up, down = (runtime.input_gradient(moved, targets, mask, 1.5)[1] for moved in (x + step, x - step))
    assert (gradient * step).sum() == pytest.approx((up - down) / 2, rel=0.02)


def test_masked_classes_get_no_probability_and_no_gradient(runtime, mask):
    x, targets = clips(32)
    targets[:, 10] = 0.3  # a class that is off; its share of the target must not count
    before = runtime.get_weights()
    assert (runtime.predict(x, mask)[:, 4:] == 0).all()
    runtime.train_step(x, targets, mask, learning_rate=0.5)
    after = runtime.get_weights()
    np.testing.assert_array_equal(before["head/kernel"][:, 4:], after["head/kernel"][:, 4:])
    np.testing.assert_array_equal(before["head/bias"][4:], after["head/bias"][4:])
    assert (before["head/kernel"][:, :4] != after["head/kernel"][:, :4]).any()


def test_setting_weights_stops_the_momentum_and_moves_the_anchor(runtime, mask):
    x, targets = clips(32)
    for _ in range(5):
        runtime.train_step(x, targets, mask, learning_rate=0.05)
    moved = runtime.get_weights()
    runtime.set_weights(moved)
    # Without targets only the momentum and the pull to the anchor could move the weights.
    loss = runtime.train_step(x, 0 * targets, mask, learning_rate=0.1, proximal=10.0)
    assert loss == 0
    for name, array in runtime.get_weights().items():
        np.testing.assert_array_equal(array, moved[name])


def test_normalising_and_back(runtime):
    features = np.random.default_rng(2).normal(size=(3, 20, 13)).astype(np.float32) * 15 - 5
    x = runtime.normalise(features)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x[0, 0, 1], (features[0, 0, 1] + 7.2) / 16.94, rtol=1e-5)
    np.testing.assert_allclose(runtime.denormalise(x), features, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("conv1/bias"), "'conv1/bias' is missing"),
        (lambda w: w.update({"conv9/bias": w["conv1/bias"]}), "'conv9/bias' is not one of this model's"),
        (lambda w: w.update({"head/bias": np.zeros(3, np.float32)}), r"'head/bias' has shape \(3,\)"),
        (lambda w: w["conv2/kernel"].__setitem__((0, 0, 0, 0), np.nan), r"'conv2/kernel' holds nan at \(0, 0, 0, 0\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name_and_change_nothing(runtime, change, message):
    weights = runtime.get_weights()
    change(weights)
    before = runtime.get_weights()
    with pytest.raises(ModelError, match=message):
        runtime.set_weights(weights)
    for name, array in runtime.get_weights().items():
        np.testing.assert_array_equal(array, before[name])


def test_input_that_does_not_fit_is_refused(runtime, mask):
    x, targets = clips(4)
    spoilt = x.copy()
    spoilt[2, 3, 4] = np.inf
    for call, message in [
        (lambda: runtime.predict(x[:, :19], mask), r"x has shape \(4, 19, 13\); this model takes \(4, 20, 13\)"),
        (lambda: runtime.predict(spoilt, mask), r"x holds inf at \(2, 3, 4\)"),
        (lambda: runtime.predict(x, 0 * mask), "switches every class off"),
        (lambda: runtime.predict(x, mask[:5]), r"mask has shape \(5,\)"),
        (lambda: runtime.predict(x, mask, temperature=0), "temperature must be above 0, not 0"),
        (lambda: runtime.train_step(x, targets[:2], mask, learning_rate=0.1), r"targets has shape \(2, 32\)"),
        (lambda: runtime.train_step(x[:0], targets[:0], mask, learning_rate=0.1), "1 to 32 rows, not 0"),
        (lambda: runtime.train_step(*clips(33), mask, learning_rate=0.1), "1 to 32 rows, not 33"),
        (lambda: runtime.train_step(x, targets, mask, learning_rate=float("nan")), "learning_rate must be finite"),
        (lambda: runtime.input_gradient(x, targets * np.nan, mask), "targets holds nan"),
        (lambda: runtime.embed(x[0]), r"x has shape \(20, 13\)"),
    ]:
        with pytest.raises(ModelError, match=message):
            call()


def test_a_file_that_is_no_bundle_is_refused(tmp_path, bundles):
    data = bundles["cnn2"].read_bytes()
    for content, message in [
        (b"", "not a readable model bundle"),
        (data[: len(data) // 2], "not a readable model bundle"),
        (data.replace(b"TFL3", b"TFL4"), "damaged|not a readable model bundle"),
    ]:
        path = tmp_path / "broken.auricle"
        path.write_bytes(content)
        with pytest.raises(BundleError, match=message):
            ModelRuntime.open(path)
    with pytest.raises(BundleError, match="No such file"):
        ModelRuntime.open(tmp_path / "absent.auricle")


def test_a_graph_that_the_runtime_cannot_take_is_refused(tmp_path, bundles):
    bundle = read_bundle(bundles["ann3"])
    path = tmp_path / "foreign.auricle"
    path.write_bytes(write_bundle(bundle.manifest, b"\x1c\0\0\0TFL3" + bytes(40), bundle.weights))
    with pytest.raises(ModelError, match="cannot take this bundle's graph"):
        ModelRuntime.open(path)


CHECK = """
import json, sys
from pathlib import Path
import numpy as np
from edge_client.model.runtime import ModelRuntime
runtime = ModelRuntime.open(Path(sys.argv[1]), threads=2)
mask = np.ones(32, np.float32)
runtime.predict(np.zeros((3, 20, 13), np.float32), mask)
runtime.train_step(np.ones((5, 20, 13), np.float32), np.eye(32, dtype=np.float32)[:5], mask, learning_rate=0.1)
peak = next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak_mb": peak, "modules": sorted(sys.modules)}))
"""


def test_memory_stays_small_and_the_library_needs_nothing_of_any_package(bundles):
    command = [sys.executable, "-c", CHECK, str(bundles["cnn2"])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["peak_mb"] < 80
    assert not {"tensorflow", "pymicro_wakeword", "pymicro_features"} & set(result["modules"])
