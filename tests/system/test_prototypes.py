"""Taught on one device, known to all: whole devices and a real aggregator."""

import subprocess
import sys

import numpy as np
import pytest

from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from tests.support.checkout import ROOT
from tests.support.device_fleet import device_fleet, enrolled, finished, open_round
from tests.support.sounds import melody, write_clips

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def fleet(tmp_path, start_aggregator):
    settings = read_bundle(find_bundle("base")).manifest.feature_settings
    running = device_fleet(tmp_path, {"base": find_bundle("base")}, start_aggregator, own=6, settings=settings)
    yield next(running)
    next(running, None)


def recognised(device, label, slot):
    """Share of clips of a sound, which no device has, that a device names rightly among all that it can hear."""
    saved = device.state().load_model(find_bundle("base"))
    model, labels = ModelRuntime(saved.listening_bundle), saved.progress.listening_labels
    clips = np.stack([melody(label, np.random.default_rng([99, seed])) for seed in range(20)]).astype(np.float32)
    x = model.normalise(open_front_end(saved.bundle.manifest.feature_settings)(clips))
    return float((model.predict(x, labels.listening_mask).argmax(axis=1) == labels.slot_of(slot)).mean())


def status(device):
    command = [sys.executable, "-m", "edge_client.cli", "clips", "--config", str(device.folder / "edge.toml")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def run_round(server, **changes):
    return finished(server, open_round(server, strategy="prototypes", settings={}, **changes))


def test_a_sound_that_one_device_was_taught_is_known_to_all_and_provisional_until_three_were(fleet):
    server, device = fleet
    devices = [device(f"d{n}", "base", labels) for n, labels in enumerate([("yes", "stop"), ("yes", "no"), ("up",)])]
    other = device("other", "base", ("no", "up"))
    for made in (*devices, other):
        made.start()
    enrolled(server, 4)
    found = run_round(server)
    assert found["aggregation"]["provisional"] == ["c4"]
    assert recognised(other, "stop", "sound-4") > 0.6
    assert recognised(other, "no", "no") > 0.8
    assert "'sound-4' is provisional" in status(other)

    for made in devices[1:]:
        write_clips(made.clips, "stop", 6, seed=40 + devices.index(made))
    found = run_round(server)
    assert found["aggregation"]["devices"]["c4"] == 3
    assert found["aggregation"]["provisional"] == []
    assert recognised(other, "stop", "sound-4") > 0.6
    assert "provisional" not in status(other)
    assert all("Traceback" not in made.log() for made in (*devices, other))
