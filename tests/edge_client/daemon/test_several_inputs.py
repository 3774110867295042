"""One daemon with several inputs: events name theirs, each is watched by itself, and all share one model."""

import contextlib
import threading

import numpy as np
import pytest
import soundfile

from edge_client.daemon.daemon import Daemon
from edge_client.errors import ConfigError
from edge_client.events.journal import past_events
from tests.support.edge_process import wait_for
from tests.support.taught_device import Device


def write_bang(path, seed):
    """Write half a second of noise between background."""
    rng = np.random.default_rng(seed)
    sound = rng.normal(scale=0.002, size=64_000)
    sound[24_000:32_000] += rng.normal(scale=0.3, size=8_000)
    soundfile.write(path, sound, 16_000)


def played(path):
    return f'file = "{path}"'


@contextlib.contextmanager
def running(device):
    """A daemon at work."""
    stop = threading.Event()
    daemon = Daemon(device.config, device.folder / "edge.toml", stop)
    thread = threading.Thread(target=daemon.run, daemon=True)
    thread.start()
    try:
        yield daemon
    finally:
        stop.set()
        thread.join(180)
    assert not thread.is_alive()


def test_each_input_has_its_events_and_its_state_and_one_that_fails_disturbs_no_other(tmp_path):
    for name in ("hall", "kitchen"):
        write_bang(tmp_path / f"{name}.wav", len(name))
    sections = {
        "microphone": played(tmp_path / "hall.wav"),
        "microphones.kitchen": played(tmp_path / "kitchen.wav"),
        "microphones.garage": 'url = "rtsp://127.0.0.1:9/nobody"',
        "detector": "unknown_refractory_s = 1",
    }
    device = Device(tmp_path, "base", **sections)
    with running(device) as daemon:
        journal = device.state.database
        wait_for(
            lambda: {event.input for event in past_events(journal, 50)} == {"microphone", "kitchen"},
            what="an event of each input",
        )
        wait_for(lambda: daemon.status()["loops"]["listening garage"]["error"], what="what is the matter")
        status = daemon.status()
    assert list(status["inputs"]) == ["microphone", "kitchen", "garage"]
    assert status["listening"]["windows"] > 0
    assert status["inputs"]["kitchen"]["windows"] > 0
    assert status["inputs"]["garage"] is None
    assert status["loops"]["listening kitchen"]["state"] == "running"


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"microphone": None, "microphones.hall": ""}, "[microphone] is the first"),
        ({"microphones.microphone": ""}, "needs another name"),
        ({'microphones."a b"': ""}, "needs another name"),
        ({"microphones": "hall = 3"}, "must be a section"),
        ({"microphones.hall": "loud = true"}, "unknown key 'loud' in [microphones.hall]"),
        ({f"microphones.m{number}": "" for number in range(8)}, "at most 7"),
    ],
)
def test_what_cannot_be_an_input_is_refused(tmp_path, sections, told):
    with pytest.raises(ConfigError) as error:
        Device(tmp_path, "base", **sections)
    assert told in str(error.value)
