"""Synthesised recordings, for a machine that has none: words in many voices, and everyday sounds of many sources.

Words are said by espeak-ng, from its wheel, through ctypes. A speaker is an accent, a voice variant, a pitch and a
pace. Every take differs a little, lies somewhere in its second, and has noise of a random colour and level behind it,
so that models have something to learn. The same parameters give the same files.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from demo import DemoError
from edge_client.audio.resampling import resample
from fleet_protocol.ground import sample_sounds
from fleet_protocol.numbers.arrays import Floats

RATE_HZ = 16_000
ACCENTS = ("en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-029", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us-nyc")
EVERYDAY_SOUNDS = (
    *("alarm", "beep", "cry", "doorbell", "fan", "glass", "kettle", "siren"),
    *("telephone", "vacuum_cleaner"),
)
"""Kinds of everyday sounds, of those that :mod:`fleet_protocol.ground.sample_sounds` makes."""
# Voices made for effect, which people would not take for a person.
_EFFECTS = ("Demonic", "Tweaky", "UniRobot", "anikaRobot", "croak", "fast", "whisper", "robosoft")
_SNR_DB = (3.0, 20.0)
_LEVEL = (0.05, 0.4)
_COLOURS = (0.0, 0.5, 1.0, 1.5, 2.0)


def cached(build: Path, labels: Sequence[str], speakers: int, takes: int, seed: int, *, sounds: bool = False) -> Path:
    """Return a folder of these recordings below ``build``, made on the first call."""
    code = b"".join(Path(module).read_bytes() for module in (__file__, sample_sounds.__file__))
    recipe = code + repr((tuple(labels), speakers, takes, seed, sounds)).encode()
    folder = build / f"corpus-{hashlib.sha256(recipe).hexdigest()[:16]}"
    if not folder.is_dir():
        synthesise(folder, labels, speakers, takes, seed, sounds=sounds)
    return folder


def synthesise(
    folder: Path,
    labels: Sequence[str],
    speakers: int,
    takes: int,
    seed: int,
    accents: tuple[str, ...] = ACCENTS,
    *,
    sounds: bool = False,
) -> None:
    """Write ``<label>/<speaker>_nohash_<take>.wav``, one second each, 16 kHz, 16 bit; all of them or none.

    Labels are words, or with ``sounds`` kinds of everyday sounds; then each label has sources of its own for speakers.

    The synthesiser is C code with one global state, so it works in a process of its own.

    Raises DemoError: the folder exists, a label cannot be a folder, a number is not positive, or synthesis failed.
    """
    corpus = {"labels": labels, "speakers": speakers, "takes": takes, "seed": seed}
    if folder.exists():
        raise DemoError(f"{folder} exists already; remove it, or synthesise into another folder")
    if not labels or len(set(labels)) != len(labels) or min(speakers, takes) < 1 or seed < 0:
        raise DemoError(f"a corpus needs labels, each once, speakers, takes and a seed from 0, not {corpus}")
    for label in labels:
        if not label or Path(label).name != label or label.startswith((".", "_")):
            raise DemoError(f"{label!r} cannot be a label: it must be a folder's name and not start with '.' or '_'")
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    kind = {} if sounds else {"accents": accents}
    command: list[str | Path] = [sys.executable, "-m", "demo.corpus", making, json.dumps(corpus | kind)]
    root = Path(__file__).resolve().parent.parent
    try:
        child = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if child.returncode != 0:
            raise DemoError(f"synthesis failed (status {child.returncode}): {child.stderr.strip()[-500:]}")
        making.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process made the same corpus first
            raise DemoError(f"cannot write {folder}: {error}") from error
    finally:
        shutil.rmtree(making, ignore_errors=True)


class Synthesiser:
    """espeak-ng in synchronous mode: the whole sound is there when a call returns."""

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._parts: list[NDArray[np.int16]] = []
        signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int16), ctypes.c_int, ctypes.c_void_p)
        self._callback = signature(self._take)  # kept: the library holds only its address
        data = Path(espeakng_loader.get_data_path())
        self.rate_hz = int(self._library.espeak_Initialize(2, 0, str(data).encode(), 0x8000))
        if self.rate_hz <= 0:
            raise SystemExit(f"espeak-ng cannot read its data in {data}")
        self._library.espeak_SetSynthCallback(self._callback)
        names = sorted(path.name for path in (data / "voices" / "!v").iterdir())
        self.variants = [name for name in names if not name.startswith(_EFFECTS)]

    def _take(self, samples: ctypes._Pointer[ctypes.c_int16], count: int, _events: int | None) -> int:
        if samples and count > 0:
            self._parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def use(self, voice: str) -> None:
        """Choose an accent and variant, as ``en-us+f3``; its breath starts from the same random numbers each time."""
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SystemExit(f"espeak-ng has no voice {voice!r}")

    def say(self, text: str, words_per_minute: int, pitch: int, intonation: int) -> Floats:
        """Return float32 [samples] in -1..1 at ``rate_hz``, without the silence around."""
        for parameter, value in ((1, words_per_minute), (3, pitch), (4, intonation)):
            self._library.espeak_SetParameter(parameter, value, 0)
        self._parts.clear()
        encoded = text.encode() + b"\0"
        status = self._library.espeak_Synth(encoded, len(encoded), 0, 1, 0, 1, None, None)
        samples: Floats = np.concatenate([np.zeros(1, np.int16), *self._parts]).astype(np.float32) / 32_768
        loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
        if status != 0 or not len(loud):
            raise SystemExit(f"espeak-ng cannot say {text!r}")
        return samples[loud[0] : loud[-1] + 1]


def _write_words(
    folder: Path, labels: Sequence[str], speakers: int, takes: int, seed: int, accents: Sequence[str]
) -> None:
    """Synthesise speaker by speaker."""
    voices = Synthesiser()
    rng = np.random.default_rng(seed)
    pairs = list(itertools.product(accents, voices.variants))
    order = rng.permutation(len(pairs))
    backgrounds = _backgrounds(rng)
    said = list(itertools.product(labels, range(takes)))
    for label in labels:
        (folder / label).mkdir()
    for speaker in range(speakers):
        voices.use("+".join(pairs[order[speaker % len(pairs)]]))
        clips = _speak(voices, [label for label, _ in said], rng)
        for clip, (label, take) in zip(clips, said, strict=True):
            _write(folder / label, speaker, take, _with_background(clip, backgrounds, rng))


def _write_sounds(folder: Path, labels: Sequence[str], speakers: int, takes: int, seed: int) -> None:
    """Synthesise source by source; no two labels share one."""
    rng = np.random.default_rng(seed)
    for source, label in enumerate(label for label in labels for _ in range(speakers)):
        (folder / label).mkdir(exist_ok=True)
        for take, clip in enumerate(sample_sounds.takes(label, takes, RATE_HZ, rng)):
            _write(folder / label, source, take, clip)


def _write(folder: Path, speaker: int, take: int, clip: Floats) -> None:
    samples = (np.clip(clip, -1.0, 1.0) * 32_767).astype(np.int16)
    soundfile.write(folder / f"{speaker:08x}_nohash_{take}.wav", samples, RATE_HZ)


def _speak(voices: Synthesiser, words: Sequence[str], rng: np.random.Generator) -> Floats:
    """Return one speaker's clips, float32 [words, RATE_HZ], each word somewhere in its second."""
    pace, pitch, intonation = rng.integers(130, 211), rng.integers(20, 81), rng.integers(20, 81)
    seconds = np.zeros((len(words), voices.rate_hz), np.float32)
    for row, label in enumerate(words):
        jitter = rng.integers(-15, 16, size=3)
        word = voices.say(
            label.replace("_", " "), int(pace + jitter[0]), int(pitch + jitter[1]), int(intonation + jitter[2])
        )[: voices.rate_hz]
        start = rng.integers(voices.rate_hz - len(word) + 1)
        seconds[row, start : start + len(word)] = word
    return resample(seconds.reshape(-1), voices.rate_hz, RATE_HZ).reshape(len(seconds), RATE_HZ)


def _backgrounds(rng: np.random.Generator) -> list[Floats]:
    """Return half a minute of noise of every colour, power falling as 1 / f^colour, each with an RMS of 1."""
    frequencies = np.maximum(np.fft.rfftfreq(30 * RATE_HZ, 1 / RATE_HZ), 50.0)
    spectra = (np.fft.rfft(rng.standard_normal(30 * RATE_HZ)) * frequencies ** (-colour / 2) for colour in _COLOURS)
    noises = [np.fft.irfft(spectrum) for spectrum in spectra]
    return [(noise / noise.std()).astype(np.float32) for noise in noises]


def _with_background(clip: Floats, backgrounds: list[Floats], rng: np.random.Generator) -> Floats:
    """Return a clip at a random level over noise at a random distance below the word."""
    noise = backgrounds[rng.integers(len(backgrounds))]
    start = rng.integers(len(noise) - len(clip) + 1)
    loudness = float(np.sqrt(np.mean(np.square(clip[clip != 0]))))
    level = float(np.exp(rng.uniform(*np.log(_LEVEL)))) / float(np.abs(clip).max())
    distance = 10 ** (-rng.uniform(*_SNR_DB) / 20)
    return level * (clip + loudness * distance * noise[start : start + len(clip)])


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    (_write_words if "accents" in asked else _write_sounds)(Path(sys.argv[1]), **asked)
