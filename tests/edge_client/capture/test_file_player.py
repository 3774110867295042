"""Recordings in the place of a microphone: the microphone's own reader gets them whole, in order, at their pace."""

import itertools
import logging
import os
import time

import numpy as np
import pytest
import soundfile

from edge_client.capture import microphone
from edge_client.capture.file_player import _in_turn, _sound
from edge_client.capture.microphone import Microphone, SilenceWatch
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError
from tests.support.checkout import run_module

RATE_HZ = 16_000
pytestmark = pytest.mark.slow


def write_tone(path, frequency_hz, seconds=0.5, rate_hz=RATE_HZ, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    tone = 0.5 * np.sin(2 * np.pi * frequency_hz * np.arange(round(seconds * rate_hz)) / rate_hz)
    soundfile.write(path, np.tile(tone[:, None], channels), rate_hz)


@pytest.fixture
def heard(tmp_path, open_microphone, monkeypatch):
    """Reads seconds of what a microphone of this configuration gives.

    A reader or a player that stands still meanwhile loses nothing.
    """
    monkeypatch.setattr(microphone, "_HELD_S", 600.0)

    def read(seconds, **options):
        source = open_microphone(RATE_HZ, file=tmp_path, silent_s=180.0, **options)
        parts = [source.read(RATE_HZ // 10, 180.0) for _ in range(round(10 * seconds))]
        assert source.overflows == source.reopened == 0
        return np.concatenate(parts)

    return read


def pitches(samples):
    """The frequencies of the tones that follow each other, Hz."""
    tenths = samples[: len(samples) // 1600 * 1600].reshape(-1, 1600)
    spectra = np.abs(np.fft.rfft(tenths * np.hanning(1600)))
    loud = [10 * int(spectrum.argmax()) for spectrum in spectra if spectrum.max() > 100]
    return [pitch for pitch, _ in itertools.groupby(loud)]


def test_a_folder_is_played_in_the_order_of_its_paths_whatever_the_files_rates(heard, tmp_path):
    write_tone(tmp_path / "b" / "1.wav", 1000, rate_hz=44_100, channels=2)
    write_tone(tmp_path / "a" / "2.flac", 600)
    write_tone(tmp_path / "a" / "1.ogg", 2000, rate_hz=8_000)
    (tmp_path / "a" / "notes.txt").write_text("no sound")
    began = time.monotonic()
    samples = heard(6)
    assert time.monotonic() - began >= 5.5  # at the pace of real time
    assert pitches(samples)[:4] == [2000, 600, 1000, 2000]  # and again
    assert 0.4 < np.abs(samples).max() < 0.6
    assert np.any(samples[-RATE_HZ // 4 :])  # dithered: never zeros alone


def test_without_repetition_silence_follows(heard, tmp_path, monkeypatch):
    write_tone(tmp_path / "1.wav", 1000)
    monkeypatch.setattr(microphone, "SilenceWatch", lambda _: SilenceWatch(1.0))
    samples = heard(4, repeat=False)  # and the silence is none of a microphone that broke
    assert pitches(samples) == [1000]
    assert np.abs(samples[2 * RATE_HZ :]).max() < 0.001


def test_a_constant_offset_of_what_records_is_not_heard(heard, tmp_path):
    tone = 0.3 * np.sin(2 * np.pi * 1000 * np.arange(4 * RATE_HZ) / RATE_HZ)
    soundfile.write(tmp_path / "1.wav", 0.25 + tone, RATE_HZ)
    samples = heard(3)
    assert abs(samples.mean()) < 0.002
    assert np.abs(samples).max() < 0.32


def test_what_is_put_into_the_folder_meanwhile_comes_next(tmp_path):
    for name in ("1.wav", "2.wav", "3.wav"):
        write_tone(tmp_path / name, 1000)
    played = _in_turn(tmp_path, repeat=True)
    assert next(played).name == "1.wav"
    write_tone(tmp_path / "new" / "9.wav", 1000)
    (tmp_path / "new" / "9.wav").rename(tmp_path / "9.wav")
    assert [next(played).name for _ in range(5)] == ["9.wav", "2.wav", "3.wav", "9.wav", "1.wav"]
    (tmp_path / "2.wav").unlink()
    assert next(played).name == "3.wav"


def test_a_recording_is_played_to_its_end_however_long_it_is(tmp_path):
    write_tone(tmp_path / "long.wav", 1000, seconds=90, rate_hz=8_000)
    blocks = list(itertools.islice(_sound(tmp_path / "long.wav", 8_000, repeat=False), 20 * 90))
    assert max(len(block) for block in blocks) <= 8_000
    assert np.abs(blocks[-1]).max() > 0.4


def test_what_cannot_be_read_is_left_out_and_named(heard, tmp_path, caplog):
    write_tone(tmp_path / "2.wav", 1000)
    (tmp_path / "1.wav").write_bytes(b"RIFF, and then nothing that is sound")
    with caplog.at_level(logging.WARNING):
        assert pitches(heard(2)) == [1000]
    assert f"left out a recording: cannot read {tmp_path / '1.wav'}" in caplog.text


@pytest.mark.parametrize(
    ("content", "said"), [(None, "no such file"), ({}, "no recordings"), ({"a.wav": b""}, "a.wav")]
)
def test_nothing_to_play_is_an_error_that_names_it(content, said, tmp_path):
    folder = tmp_path / "recordings"
    if content is not None:
        folder.mkdir()
        for name, data in content.items():
            (folder / name).write_bytes(data)
    with pytest.raises(AudioError, match=rf"\[microphone\] file = {folder}: .*{said}"):
        Microphone(MicrophoneConfig(file=folder), RATE_HZ)


def test_a_pipe_is_refused_with_the_way_out(tmp_path):
    """As snapcast and ffmpeg write to: opened without a writer, it would be waited for without an end."""
    os.mkfifo(tmp_path / "snap.fifo")
    config = tmp_path / "edge.toml"
    config.write_text(
        '[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "base"\n[microphone]\nfile = "snap.fifo"\n'
    )
    done = run_module("edge_client.cli", "doctor", "--config", config, timeout=180)
    assert done.returncode == 1
    assert "this is a pipe or a device, and no recording; [microphone] url takes a live stream" in done.stdout
