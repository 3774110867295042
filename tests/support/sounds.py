"""Sounds for tests that need no real recordings: each label is its own melody of two gliding tones in noise."""

import shutil
import subprocess
import wave
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from edge_client.clips.public_set import build_public_set
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.public_set import PublicSet

RATE = 16_000
TONES = {"yes": (400, 900), "no": (900, 400), "up": (1500, 1500), "down": (2500, 700), "stop": (700, 3200)}
TONES["zip"] = (1200, 2200)  # which a device that knows "up" takes for it


def melody(label: str, rng: np.random.Generator) -> np.ndarray:
    """One second, float64 [16000] in -1..1."""
    start, end = TONES[label]
    length = int(rng.integers(7_000, 11_000))
    glide = np.linspace(start, end, length) * rng.uniform(0.95, 1.05)
    tone = np.sin(2 * np.pi * np.cumsum(glide) / RATE) * np.hanning(length)
    clip = rng.normal(scale=0.01, size=RATE)
    at = int(rng.integers(2_000, RATE - length - 2_000))
    clip[at : at + length] += rng.uniform(0.2, 0.6) * tone
    return clip


def write_clips(folder: Path, label: str, count: int, seed: int, name: str = "") -> None:
    """Write a label's melody as ``<speaker>_nohash_0.wav`` files, 16 bit mono, into its own folder or a name's."""
    rng = np.random.default_rng([seed, sorted(TONES).index(label)])
    own = folder / (name or label)
    own.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        with wave.open(str(own / f"{seed:04x}{number:04x}_nohash_0.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((melody(label, rng) * 32767).clip(-32768, 32767).astype("<i2").tobytes())


def write_words(folder: Path, words: Iterable[str], takes: int) -> None:
    """Write each word's melody, said by two people in turn, as ``<word>/speaker<0 or 1>_<take>.wav``."""
    rng = np.random.default_rng(0)
    for word in words:
        (folder / word).mkdir(parents=True)
        for take in range(takes):
            sound = encode_wave(melody(word, rng).astype(np.float32), RATE)
            (folder / word / f"speaker{take % 2}_{take}.wav").write_bytes(sound)


def phone_recording(path: Path, label: str, count: int) -> Path:
    """Write one recording of so many of a label's melodies, in a form of phones, by the file's suffix."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("not installed: ffmpeg (on Debian: apt-get install ffmpeg)")
    pause = 0.001 * np.random.default_rng(5).standard_normal(2 * RATE)
    parts = [part for seed in range(count) for part in (pause, melody(label, np.random.default_rng(seed)))]
    path.with_suffix(".wav").write_bytes(encode_wave(np.concatenate([*parts, pause]).astype(np.float32), RATE))
    subprocess.run(["ffmpeg", "-loglevel", "error", "-i", path.with_suffix(".wav"), path], check=True)
    return path


def public_set_of(folder: Path, labels: Sequence[str], count: int, settings: FeatureSettings) -> PublicSet:
    """Return a public set of so many clips of each label's melody, which are written into a folder."""
    for label in labels:
        write_clips(folder, label, count, seed=99)
    return build_public_set(folder, settings, list(labels), count)


def write_two_homes(folder: Path) -> None:
    """Write the folders of docs/start.md: ``recordings``, and three of its labels in ``kitchen`` and ``hall``."""
    for label in ("yes", "no", "up", "down"):
        write_clips(folder / "recordings", label, 8, seed=99)
    for seed, (owner, labels) in enumerate({"kitchen": ("yes", "no", "up"), "hall": ("no", "up", "down")}.items()):
        for label in labels:
            write_clips(folder / owner, label, 12, seed=seed)
