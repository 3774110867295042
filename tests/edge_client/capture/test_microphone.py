"""A microphone through ALSA and PulseAudio: what is played is heard, and what breaks comes back."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.capture.microphone import Microphone, SampleRing, SilenceWatch
from edge_client.cli import main
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError
from tests.support.edge_process import wait_for

RATE_HZ = 16_000
TONE_HZ = 1_000
pytestmark = pytest.mark.slow


def tone(seconds=1.0, amplitude=0.5, frequency_hz=TONE_HZ):
    return amplitude * np.sin(2 * np.pi * frequency_hz * np.arange(round(seconds * 48_000)) / 48_000)


@pytest.fixture
def open_source(sound_server, open_microphone):
    """Opens the microphone on the shelf."""
    return partial(open_microphone, device="shelf_microphone", silent_s=2.0)


def read_until_sound(source, seconds=120.0):
    """Read until a tone is heard, past what was recorded before it; return whether it came."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if np.abs(source.read(source.sample_rate_hz // 10, 0.5)).max(initial=0) > 0.1:
            source.read(source.sample_rate_hz // 5, 2)  # the tone's onset
            return True
    return False


def fitted(samples, rate_hz=RATE_HZ, frequency_hz=TONE_HZ):
    """Return the amplitude of the best sine through samples, and the root mean square of what it leaves."""
    phase = 2 * np.pi * frequency_hz * np.arange(len(samples)) / rate_hz
    basis = np.stack([np.sin(phase), np.cos(phase)], axis=1)
    weights = np.linalg.lstsq(basis, samples, rcond=None)[0]
    return float(np.hypot(*weights)), float(np.sqrt(np.mean((samples - basis @ weights) ** 2)))


def recorders(parent=None):
    """Return the processes that a process, this one by default, started to record."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, ppid = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes()
            if int(ppid) == (parent or os.getpid()) and state != "Z" and command.startswith(b"arecord"):
                found.append(int(folder.name))
    return found


def the_recorder():
    """The process that records; on a busy machine one that stood still is just being replaced by another."""
    return wait_for(lambda: len(found := recorders()) == 1 and found[0], what="one recorder")


@pytest.mark.parametrize(
    ("model_hz", "device_hz", "right"),
    [(16_000, 0, 0), (14_400, 44_100, 1)],  # both channels count the same
)
def test_a_tone_is_heard_at_its_pitch_and_level_without_a_gap(open_source, sound_server, model_hz, device_hz, right):
    sound_server.play_on(np.stack([tone(), right * tone()], axis=1))
    source = open_source(model_hz, rate_hz=device_hz, silent_s=180.0)
    assert read_until_sound(source)
    for _ in range(10):  # on a busy machine the sound server itself leaves gaps
        lost = source.overflows
        samples = source.read(2 * model_hz, 60)
        assert (samples.dtype, len(samples), source.sample_rate_hz) == (np.float32, 2 * model_hz, model_hz)
        assert source.device_rate_hz == (device_hz or model_hz)
        amplitude, rest = fitted(samples, model_hz)
        # A single lost block would turn the phase and leave much more.
        if rest < 0.01 and source.overflows == lost:
            break
    assert amplitude == pytest.approx(0.25 * (1 + right), rel=0.02)
    assert rest < 0.01
    assert source.overflows == lost
    assert source.reopened == 0


def test_a_name_or_a_rate_that_is_not_there_is_an_error_that_lists_those_that_are(sound_server, capsys):
    with pytest.raises(AudioError, match=r"named like 'Attic'; present: .*'shelf_microphone'.*part of its name"):
        Microphone(MicrophoneConfig(device="Attic"), RATE_HZ)
    assert recorders() == []
    with pytest.raises(AudioError, match=r"'shelf_microphone' cannot .* at 500000 Hz; it.*(192000|384000)"):
        Microphone(MicrophoneConfig(device="shelf_microphone", rate_hz=500_000), RATE_HZ)
    assert main(["devices"]) == 0
    listed = capsys.readouterr().out
    assert all(part in listed for part in ("shelf_microphone", "cellar_microphone", "USB microphone on a shelf"))


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP])
def test_a_recorder_that_dies_or_hangs_is_replaced(open_source, sound_server, ending):
    sound_server.play_on(tone())
    source = open_source(RATE_HZ)
    assert read_until_sound(source)
    recorder = the_recorder()
    os.kill(recorder, ending)
    deadline = time.monotonic() + 120
    while not source.reopened and time.monotonic() < deadline:
        source.read(RATE_HZ // 10, 0.2)
    assert source.reopened >= 1
    assert read_until_sound(source)
    assert the_recorder() != recorder


def test_a_microphone_that_is_pulled_is_heard_again_once_it_is_back(open_source, sound_server, caplog):
    sound_server.play_on(tone())
    source = open_source(RATE_HZ)
    assert read_until_sound(source)
    sound_server.kill()
    try:
        wait_for(lambda: not len(source.read(RATE_HZ, 2.5)), what="the end of what was recorded before")
    finally:
        sound_server.start()
    sound_server.play_on(tone())
    assert read_until_sound(source)
    assert source.reopened >= 1
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("shelf_microphone" in text and "opening it again" in text for text in warnings)
    assert len(warnings) < 6


def test_closing_leaves_no_process_and_wakes_who_reads(open_source):
    source = open_source(RATE_HZ)
    the_recorder()
    source.close()
    assert len(source.read(100 * RATE_HZ, 60)) < 100 * RATE_HZ
    wait_for(lambda: recorders() == [], what="the end of what records")


def test_recording_ends_with_the_daemon_however_that_ends(sound_server):
    code = (
        "import time\n"
        "from edge_client.capture.microphone import Microphone\n"
        "from edge_client.config.sections import MicrophoneConfig\n"
        "source = Microphone(MicrophoneConfig(device='shelf'), 16000)\n"
        "print('recording', flush=True)\n"
        "time.sleep(600)\n"
    )
    daemon = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout.readline() == "recording\n"
        (recorder,) = recorders(daemon.pid)
    finally:
        daemon.kill()
        daemon.communicate()
    wait_for(lambda: not Path(f"/proc/{recorder}").exists(), what="the end of the recorder")


@given(capacity=st.integers(1, 20), steps=st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40))
@settings(max_examples=200)
def test_it_holds_what_a_list_of_the_latest_would(capacity, steps):
    ring, held, made = SampleRing(capacity), [], 0
    for put, count in steps:
        if put:
            held += range(made, made + count)
            made += count
            dropped = max(0, len(held) - capacity)
            held = held[dropped:]
            assert ring.put(np.arange(made - count, made, dtype=np.float32)) == dropped
        else:
            assert ring.take(count, 0).tolist() == held[:count]
            held = held[count:]


RATE = 1_000


def alarms(watch, seconds, value=0.0):
    """Return the seconds at which zeros, or another value alone, were too many."""
    times = []
    for second in range(1, seconds + 1):
        try:
            watch.hear(np.full(RATE, value, np.float32), RATE)
        except AudioError:
            times.append(second)
    return times


def test_the_pauses_double_up_to_an_hour():
    times = alarms(SilenceWatch(10), 24 * 3_600)
    assert times[:4] == [10, 30, 70, 150]
    assert 24 <= len(times) <= 34
    assert np.diff(times).max() == 3_600


def test_any_sound_makes_it_watch_closely_again():
    watch = SilenceWatch(10)
    assert alarms(watch, 35) == [10, 30]
    watch.hear(np.array([0, 0, 1 / 32_768], np.float32), RATE)
    assert alarms(watch, 35) == [10, 30]


def test_a_dead_input_with_an_offset_is_silent_too():
    assert alarms(SilenceWatch(10), 35, 0.25) == [10, 30]
