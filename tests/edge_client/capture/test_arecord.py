"""Which rate arecord records at, for sound cards, of which a test machine has none: a stand-in answers like one."""

import threading
import time
from contextlib import closing

import numpy as np
import pytest

from edge_client.capture import arecord
from edge_client.capture.arecord import arecord_devices, open_arecord
from edge_client.capture.microphone import Microphone
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError

# A USB microphone of 44.1 and 48 kHz; the words are those of alsa-utils 1.2.8.
CARD = """#!/bin/sh
case "$*" in
-L)
    printf 'null\n    Discard all samples\ndefault:CARD=Mic\n    Some Mic, USB Audio\n    Default Audio Device\n'
    printf 'hw:CARD=Mic,DEV=0\n    Some Mic, USB Audio\n    Direct hardware device without any conversions\n'
    printf 'plughw:CARD=Mic,DEV=0\n    Some Mic, USB Audio\n    Hardware device with all software conversions\n' ;;
*--dump-hw-params*)
    if test -e "$(dirname "$0")/busy"; then
        echo 'arecord: main:831: audio open error: Device or resource busy' >&2
        exit 1
    fi
    printf 'HW Params of device "hw":\n----\nFORMAT:  S16_LE S24_3LE\nCHANNELS: 2\nRATE: [8000 48000]\n----\n' >&2
    exit 1 ;;
*plughw*) while cat "$(dirname "$0")/frames"; do :; done ;;
*"-f S16_LE -c 2 -r 44100"*|*"-f S16_LE -c 2 -r 48000"*) ;;
*) echo 'Warning: rate is not accurate (requested = 16000Hz, got = 44100Hz)' >&2 ;;
esac
"""


@pytest.fixture(autouse=True)
def card(tmp_path, monkeypatch):
    (tmp_path / "frames").write_bytes(np.tile(np.array([[1_024, -8_192]], "<i2"), (500, 1)).tobytes())
    program = tmp_path / "arecord"
    program.write_text(CARD)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(arecord, "_TIMEOUT_S", 180.0)  # a busy machine takes long to start a process
    return tmp_path


def recorded_at(rate_hz, model_hz):
    stream = open_arecord(MicrophoneConfig(rate_hz=rate_hz), model_hz, threading.Event())
    stream.process.close()
    assert (stream.device, stream.channels) == ("plughw:CARD=Mic,DEV=0", 2)
    return stream.rate_hz


def test_a_card_is_listed_once_by_the_name_that_converts():
    assert [(device.name, device.description) for device in arecord_devices()] == [
        ("plughw:CARD=Mic,DEV=0", "Some Mic, USB Audio; Hardware device with all software conversions")
    ]


@pytest.mark.parametrize(
    ("rate_hz", "model_hz", "expected_hz"),
    [(0, 16_000, 44_100), (0, 14_400, 44_100), (0, 48_000, 48_000), (48_000, 16_000, 48_000), (0, 96_000, 48_000)],
)
def test_the_hardware_is_asked_for_a_rate_that_it_has(rate_hz, model_hz, expected_hz):
    assert recorded_at(rate_hz, model_hz) == expected_hz


@pytest.mark.parametrize("rate_hz", [16_000, 96_000])
def test_a_rate_that_it_lacks_is_refused_with_those_it_has(rate_hz):
    with pytest.raises(AudioError, match=rf"cannot record at {rate_hz} Hz; its rates: \[8000 48000\]; set rate_hz"):
        recorded_at(rate_hz, 16_000)


def test_a_device_in_use_is_named_with_the_reason(card):
    (card / "busy").touch()
    with pytest.raises(AudioError, match=r"'hw:CARD=Mic,DEV=0'.*Device or resource busy; is another program using it"):
        recorded_at(0, 16_000)


@pytest.mark.parametrize(("channel", "level"), [(1, 1 / 32), (2, -1 / 4)])
def test_one_of_its_channels_is_heard_alone(channel, level):
    stream = open_arecord(MicrophoneConfig(channel=channel), 48_000, threading.Event())
    stream.process.wait(180.0, threading.Event())
    assert set(stream.read(180.0)) == {np.float32(level)}
    stream.process.close()
    with pytest.raises(AudioError, match=r"2 channels; \[microphone\] channel = 7"):
        open_arecord(MicrophoneConfig(channel=7), 48_000, threading.Event())


def test_opposite_phases_and_a_rate_below_the_models_are_said(card, caplog):
    (card / "frames").write_bytes(np.tile(np.array([[8_192, -8_192]], "<i2"), (500, 1)).tobytes())
    with closing(Microphone(MicrophoneConfig(rate_hz=44_100), 48_000)) as microphone:
        assert "records at 44100 Hz, and the model hears at 48000 Hz" in caplog.text
        end = time.monotonic() + 180
        while "channel = 1" not in caplog.text:
            assert time.monotonic() < end
            microphone.read(1_600, 0.2)
