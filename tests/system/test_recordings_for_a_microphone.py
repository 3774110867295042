"""A machine without any sound device: the whole daemon listens to recordings, is taught, and writes events."""

import itertools
import os
import signal

import pytest

from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.sound_server import no_sound_devices
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

SECTIONS = """
[microphone]
backend = "file"
file = "recordings"
[training]
teach_epochs = 8
nice = 0
"""


@pytest.fixture
def device(tmp_path, bundles):
    device = EdgeDaemon(tmp_path / "shelf", bundles["cnn2"], SECTIONS)
    for label in ("yes", "up", "stop"):
        write_clips(device.folder / "recordings", label, 3, seed=5)
        write_clips(tmp_path / "new", label, 12, seed=3)
    device.start(os.environ | no_sound_devices(tmp_path))
    yield device
    if device.process.poll() is None:
        device.process.kill()
        device.process.wait()


def detected(device):
    return [event["label"] for event in device.events() if event["kind"] == "detected"]


def test_it_hears_what_the_recordings_hold(device, tmp_path):
    device.command("import", str(tmp_path / "new"))
    wait_for(lambda: {"yes", "up", "stop"} <= set(detected(device)), what="all three sounds")
    # They are heard in the order of the folder, again and again.
    order = [label for label, _ in itertools.groupby(detected(device))]
    assert set(itertools.pairwise(order)) <= {("stop", "up"), ("up", "yes"), ("yes", "stop")}
    listening = device.status()["listening"]
    assert (listening["overflows"], listening["reopened"]) == (0, 0)
    assert {"yes", "up", "stop"} <= {line.split()[2] for line in device.command("events").stdout.splitlines()}
    assert device.end(signal.SIGTERM) == 0
