"""Plays clips and cues on the device's own output: by ``aplay`` where there is one, else through PortAudio."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import encode_wave, read_recording
from edge_client.capture.pcm_process import last_line
from edge_client.errors import AudioError
from fleet_protocol.arrays import Floats

_RATE_HZ = 48_000
_LOUDNESS = 0.3
_FADE_S = 0.01
# Pitch, Hz, and length, s, of the tones of each cue.
_BEFORE = ((880.0, 0.12),)
_KEPT = ((660.0, 0.08), (990.0, 0.12))
_REFUSED = ((330.0, 0.25),)


def play(path: Path, sample_rate_hz: int) -> None:
    """Play a recording to its end.

    Raises AudioError if it cannot be read, or this machine has no output that works; says what was tried.
    """
    samples = read_recording(path, sample_rate_hz)
    if problem := play_samples(samples, sample_rate_hz):
        raise AudioError(f"cannot play on this device ({problem}); copy {path} to another machine and play it there")


def play_samples(samples: Floats, sample_rate_hz: int) -> str:
    """Play float32 [samples] in -1..1 to their end; return why this machine cannot, or ""."""
    program = shutil.which("aplay")
    if program is not None:
        result = subprocess.run([program, "-q"], input=encode_wave(samples, sample_rate_hz), capture_output=True)
        return "" if result.returncode == 0 else last_line(result.stderr) or f"aplay ended with {result.returncode}"
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        return str(error)
    try:
        sounddevice.play(samples, sample_rate_hz, blocking=True)
    except (OSError, ValueError, sounddevice.PortAudioError) as error:
        return str(error)
    return ""


class Cues:
    """Plays cues on the device's own output. After the first failure nothing is played, and ``problem`` says why."""

    def __init__(self) -> None:
        self.problem = ""

    def before(self) -> None:
        """Play what comes before a take, to its end."""
        self._play(_BEFORE)

    def after(self, *, kept: bool) -> None:
        """Play what comes after a take."""
        self._play(_KEPT if kept else _REFUSED)

    def _play(self, tones: tuple[tuple[float, float], ...]) -> None:
        if not self.problem:
            self.problem = play_samples(np.concatenate([_tone(*tone) for tone in tones]), _RATE_HZ)


def _tone(pitch_hz: float, seconds: float) -> Floats:
    """Return a tone that fades in and out, float32 [samples], so that it does not click."""
    time_s = np.arange(round(seconds * _RATE_HZ)) / _RATE_HZ
    fade = np.minimum(1.0, np.minimum(time_s, seconds - time_s) / _FADE_S)
    return np.asarray(_LOUDNESS * fade * np.sin(2 * np.pi * pitch_hz * time_s), np.float32)
