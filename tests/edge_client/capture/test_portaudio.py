"""PortAudio with odd microphones: an array that plays back in one channel, opposite phases, two equal ones, 8 kHz."""

import json
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from edge_client.capture.microphone import Microphone
from edge_client.capture.portaudio import open_portaudio
from edge_client.capture.sound_devices import CaptureDevice, matching_device, port_of
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError
from tests.support.checkout import ROOT

RATE = 16_000


@pytest.fixture
def microphones(monkeypatch):
    """Pretend that some microphones are plugged in."""

    def plugged_in(*devices):
        monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/support/odd_microphones'}:{ROOT}")
        monkeypatch.setenv("FAKE_PA", json.dumps(devices))

    return plugged_in


def heard(**settings):
    """About a second of sound, and the stream that it came from."""
    stream = open_portaudio(MicrophoneConfig(**settings), RATE, threading.Event())
    with closing(stream.process):
        stream.process.wait(10.0, threading.Event())
        parts, end = [], time.monotonic() + 1.5
        while time.monotonic() < end:
            parts.append(stream.read(0.2))
    return np.concatenate(parts), stream


def tone(samples, hz):
    """Share of the power near a frequency."""
    power = np.square(np.abs(np.fft.rfft(samples)))
    near = np.abs(np.fft.rfftfreq(len(samples), 1 / RATE) - hz) < 60
    return power[near].sum() / power.sum()


def test_one_channel_of_an_array_is_heard_without_the_music_in_the_others(microphones):
    microphones({"name": "array", "channels": 6, "rates": [16_000], "kind": "voice0", "only": True})
    mixed, _ = heard()
    alone, _ = heard(channel=1)
    assert tone(mixed, 210) > 0.9
    assert tone(alone, 210) < 0.01
    with pytest.raises(AudioError, match=r"6 channels; \[microphone\] channel = 7"):
        heard(channel=7)


def test_opposite_phases_are_said(microphones, caplog):
    microphones({"name": "cable", "channels": 2, "rates": [16_000], "kind": "antiphase"})
    with closing(Microphone(MicrophoneConfig(), RATE)) as microphone:
        end = time.monotonic() + 60
        while "channel = 1" not in caplog.text:
            assert time.monotonic() < end
            microphone.read(1_600, 0.2)
    samples, stream = heard(channel=2)
    assert np.abs(samples).max() > 0.1
    assert not stream.cancels


def test_a_rate_below_the_models_is_said(microphones, caplog):
    microphones({"name": "phone", "channels": 1, "rates": [8_000], "kind": "mono"})
    with closing(Microphone(MicrophoneConfig(), RATE)):
        assert "records at 8000 Hz, and the model hears at 16000 Hz" in caplog.text


def test_two_equal_microphones_are_told_apart_by_their_ports(tmp_path):
    cards, names = tmp_path / "sound", tmp_path / "asound"
    names.mkdir()
    for number, (card, port) in enumerate((("Device", "1-1.2"), ("Device_1", "1-1.3"))):
        (cards / f"card{number}").mkdir(parents=True)
        (cards / f"card{number}" / "device").symlink_to(f"../../../1-1/{port}/{port}:1.0")
        (names / card).symlink_to(f"card{number}")
    ports = [port_of(f"USB PnP: Audio (hw:{number},0)", cards, names) for number in range(3)]
    assert ports == ["usb port 1-1.2", "usb port 1-1.3", ""]
    assert port_of("plughw:CARD=Device_1,DEV=0", cards, names) == "usb port 1-1.3"
    devices = [CaptureDevice("USB PnP", port) for port in ports[:2]]
    assert matching_device("usb port 1-1.3", devices) is devices[1]
    with pytest.raises(AudioError, match="its port"):
        matching_device("USB PnP", devices)
