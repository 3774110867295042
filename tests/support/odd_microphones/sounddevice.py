"""A stand-in for sounddevice, for a process whose PYTHONPATH begins here: the microphones of ``$FAKE_PA``, a JSON list
of {"name", "channels", "rates", "kind", "only"}. ``kind``: ``voice0`` (a voice in the first channel, music in the
others), ``antiphase`` or ``mono``; ``only``: it opens with all of its channels alone.
"""

import json
import os
import time

import numpy as np

DEVICES = json.loads(os.environ["FAKE_PA"])


class PortAudioError(Exception):
    """As PortAudio raises."""


class default:  # noqa: N801  (PortAudio's name)
    device = (0, -1)


def query_devices():
    return [
        {
            "name": one["name"],
            "index": number,
            "max_input_channels": one["channels"],
            "default_samplerate": float(one["rates"][0]),
        }
        for number, one in enumerate(DEVICES)
    ]


def check_input_settings(device, channels, dtype, samplerate):
    one = DEVICES[device]
    if samplerate not in one["rates"] or (one.get("only") and channels != one["channels"]):
        raise PortAudioError("Invalid sample rate [PaErrorCode -9997]")


class RawInputStream:
    def __init__(self, device, samplerate, channels, dtype, latency):
        self.kind, self.rate, self.channels, self.at = DEVICES[device]["kind"], samplerate, channels, 0

    def start(self):
        """Begin."""

    def read(self, frames):
        time.sleep(frames / self.rate)
        at_s = (self.at + np.arange(frames)) / self.rate
        self.at += frames
        voice = 0.2 * np.sin(2 * np.pi * 900 * at_s)[:, None]
        sound = 0.001 * np.random.default_rng(self.at).standard_normal((frames, self.channels))
        if self.kind == "voice0":
            sound[:, :1] += voice
            sound[:, 1:] += 0.5 * np.sin(2 * np.pi * 210 * at_s)[:, None]
        elif self.kind == "antiphase":
            sound = np.concatenate([voice, -voice], axis=1) + sound[:, :1]
        else:
            sound += voice
        return (np.clip(sound, -1, 1) * 32_767).astype("<i2").tobytes(), False
