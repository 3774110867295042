"""Plays cues on the device's own output, by ALSA's ``aplay``."""

from __future__ import annotations

import subprocess

import numpy as np

from edge_client.audio.recordings import encode_wave
from edge_client.capture.pcm_process import last_line
from fleet_protocol.numbers.arrays import Floats

_RATE_HZ = 48_000
_LOUDNESS = 0.3
_FADE_S = 0.01
# Cues last a quarter of a second. Meanwhile the recorder has the microphone, and the device hears nothing.
_PATIENCE_S = 5.0
# Pitch, Hz, and length, s, of the tones of each cue.
_BEFORE = ((880.0, 0.12),)
_KEPT = ((660.0, 0.08), (990.0, 0.12))
_REFUSED = ((330.0, 0.25),)


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
        if self.problem:
            return
        sound = encode_wave(np.concatenate([_tone(*tone) for tone in tones]), _RATE_HZ)
        pipe = subprocess.PIPE
        try:
            player = subprocess.Popen(["aplay", "-q"], stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe)
        except OSError as error:
            self.problem = f"cannot run aplay: {error.strerror}: sudo apt install alsa-utils"
            return
        try:
            _, said = player.communicate(sound, _PATIENCE_S)
        except subprocess.TimeoutExpired:
            player.kill()  # its end is not waited for: a driver may hold it
            self.problem = f"aplay did not end within {_PATIENCE_S:g} s; does another program use the sound card?"
            return
        if player.returncode:
            self.problem = last_line(said) or f"aplay ended with {player.returncode}"


def _tone(pitch_hz: float, seconds: float) -> Floats:
    """Return a tone that fades in and out, float32 [samples], so that it does not click."""
    time_s = np.arange(round(seconds * _RATE_HZ)) / _RATE_HZ
    fade = np.minimum(1.0, np.minimum(time_s, seconds - time_s) / _FADE_S)
    return np.asarray(_LOUDNESS * fade * np.sin(2 * np.pi * pitch_hz * time_s), np.float32)
