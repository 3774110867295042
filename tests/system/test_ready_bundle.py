"""A device with a ready bundle and a microphone alone is taught sounds and hears them: no server, no TensorFlow."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from edge_client.audio.resampling import resample
from tests.support.checkout import ROOT, without_tensorflow
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.sound_server import SINK_RATE_HZ
from tests.support.sounds import RATE, melody, write_clips

pytestmark = pytest.mark.slow

LABELS = {"yes", "up", "stop"}
SECTIONS = '[microphone]\ndevice = "shelf_microphone"\n[training]\nteach_epochs = 8\nnice = 0\n'


@pytest.fixture
def shelf(tmp_path):
    device = EdgeDaemon(tmp_path / "shelf", "base", SECTIONS)
    yield device
    if device.process is not None and device.process.poll() is None:
        device.process.kill()
        device.process.wait()


def taught(device):
    status = device.status()
    return status.get("model", {}).get("labels") and set(status["model"]["labels"]) == LABELS


def test_it_is_taught_hears_and_learns_again_when_the_front_end_changes(shelf, sound_server, tmp_path):
    environment = without_tensorflow(tmp_path)
    rng = np.random.default_rng(7)
    sound_server.play_on(0.001 * rng.normal(size=60 * SINK_RATE_HZ).astype(np.float32))  # a room is never silent
    shelf.start(environment)
    wait_for(lambda: (shelf.status().get("listening") or {}).get("frames", 0) > 0, what="the first sound")
    nothing = {"architecture": "linear", "labels": [], "provisional": [], "not_listened_for": [], "round": None}
    assert shelf.status()["model"] == nothing
    assert shelf.status()["server"] is None
    for label in sorted(LABELS):
        write_clips(tmp_path / "new", label, 12, seed=3)
    shelf.command("import", str(tmp_path / "new"))
    wait_for(lambda: taught(shelf), what="the new labels")

    def played():
        clip = resample(melody("yes", rng).astype(np.float32), RATE, SINK_RATE_HZ)
        return np.concatenate([clip, np.zeros(SINK_RATE_HZ // 2, np.float32)])

    sound_server.play_until(played, lambda: any(event["label"] == "yes" for event in shelf.events()), "yes")
    assert "linear: " in shelf.command("status").stdout
    assert shelf.end(signal.SIGTERM) == 0

    # As after an upgrade that brings another front end.
    shelf.config.write_text(shelf.config.read_text().replace('"base"', '"base_int8"'))
    (shelf.runtime / "status.json").unlink()
    shelf.start(environment)
    wait_for(lambda: taught(shelf), what="the labels, learned again")
    assert "another front end than before" in shelf.log()
    assert shelf.end(signal.SIGTERM) == 0


def test_a_daemon_without_a_bundle_says_what_to_write(tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text('[device]\nname = "shelf"\nstate = "state"\n')
    command = [sys.executable, "-m", "edge_client.cli", "run", "--config", str(config)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "[model] needs the key 'bundle', as in bundle = \"base\"; ready: ann3, base, base_hidden" in result.stderr
