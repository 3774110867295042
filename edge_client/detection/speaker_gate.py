"""Whether a label was said by who recorded its takes (``[labels.NAME] only_me``): a convenience, and no lock.

A clip's voice is a few numbers in which clips of one person saying one word differ little and people differ much:
linear discriminant analysis of many people's words (Fisher 1936), in noise and through many microphones. A detection's
distance from the takes' mean is judged by two Gaussians, as in probabilistic linear discriminant analysis (Prince &
Elder 2007): of one speaker, and of two. What is known of the owner's voice is computed from the takes when the device
loads its model. It is kept in memory alone, and goes nowhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np

from edge_client.audio.recordings import Recordings, loudest_stretch
from edge_client.audio.resampling import resample
from edge_client.config import Config
from edge_client.features.log_mel import LogMel
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.feature_settings import LogMelSettings, preset
from fleet_protocol.tensors import unpack

FEWEST_TAKES = 3
"""With fewer, everybody is heard: a voice is not known from them."""
VOICES = Path(__file__).parents[1] / "front_ends" / "voices.safetensors"
"""``directions`` [numbers, directions] and ``between`` [directions], which `auricle-export voices` wrote."""
LEAST = -2.5
"""Log-likelihood ratio from which a sound counts as the owner's: of the tuning speakers 1 % of their own words fall
below (`python -m benchmarks.speaker_gate --tuning`)."""
# Takes of a label that are looked at; each costs a front end's window when a model is loaded.
_MOST_TAKES = 50
LOUD_FRAMES = 24
"""Frames of a clip, the loudest, that count as its word."""
# Which of them, from the loudest, describe a band.
_QUANTILES = (2, 5, 10, 17)
# Noise in a band: twice the power of its quieter frames, of which so much is left.
_QUIETER, _NOISE, _LEFT = 0.2, 2.0, 0.02
_FLOOR = 1e-6
# Takes by one person that are refused by chance, as a share.
_STRANGE = 0.25
_SETTINGS = cast("LogMelSettings", preset("log_mel"))


def voice_numbers(log_mel: Floats) -> Floats:
    """Return what clips sound like, whoever says whatever: float32 [clips, 98, 40] -> float32 [clips, 200].

    Quantiles of each band over the loudest frames, against their mean level; and how much each band changes in them.
    Steady noise is subtracted from the power before (spectral subtraction, Boll 1979).
    """
    power = np.exp(log_mel)
    noise = _NOISE * np.quantile(power, _QUIETER, axis=1, keepdims=True)
    clean = np.log(np.maximum(power - noise, _LEFT * power) + _FLOOR)
    chosen = np.argsort(-clean.mean(axis=2), axis=1, kind="stable")[:, :LOUD_FRAMES]
    loud = np.take_along_axis(clean, chosen[:, :, None], axis=1)
    ordered = np.sort(loud, axis=1)[:, ::-1] - loud.mean(axis=(1, 2), keepdims=True)
    change = clean[:, 2:] - clean[:, :-2]
    inner = np.clip(chosen - 1, 0, change.shape[1] - 1)
    changes = np.square(np.take_along_axis(change, inner[:, :, None], axis=1)).mean(axis=1)
    parts = [*(ordered[:, frame] for frame in _QUANTILES), 0.5 * np.log(changes + 0.01)]
    return np.asarray(np.concatenate(parts, axis=1), np.float32)


@dataclass(frozen=True)
class Voices:
    """In which directions people's voices differ.

    Attributes:
        directions: From :func:`voice_numbers` to voices that scatter by 1 within one person's word,
            float32 [numbers, directions].
        between: Variance between people, float32 [directions].
    """

    directions: Floats
    between: Floats

    @classmethod
    def read(cls, data: bytes) -> Voices:
        """Read a file's bytes. Raises TensorError if they are no safetensors file."""
        arrays, _ = unpack(data)
        return cls(arrays["directions"], arrays["between"])

    def of(self, log_mel: Floats) -> Doubles:
        """Return the voices of clips, float32 [clips, 98, 40] -> float64 [clips, directions]."""
        return np.asarray(voice_numbers(log_mel) @ self.directions, np.float64)

    def likeness(self, takes: Doubles, heard: Doubles) -> Doubles:
        """Return log-likelihood ratios, of takes' speaker against anybody: [takes, directions], [clips, directions]
        -> [clips].
        """
        one = 1 + 1 / len(takes)
        another = one + 2 * self.between.astype(np.float64)
        distances = np.square(heard - takes.mean(axis=0))
        return np.asarray(0.5 * (distances * (1 / another - 1 / one) + np.log(another / one)).sum(axis=1))


@cache
def shipped_voices() -> Voices:
    """Return those that come with Auricle."""
    return Voices.read(VOICES.read_bytes())


class SpeakerGate:
    """Accepts a label's sounds where they are like its takes; for labels without takes, everything."""

    def __init__(self, takes: Mapping[str, Floats], rate_hz: int, voices: Voices | None = None) -> None:
        """Learn the voices.

        Args:
            takes: by label at least one clip, float32 [clips, samples] of a second at 16 kHz.
            rate_hz: of the windows that will be judged, Hz.
            voices: in which directions voices differ; None for those that come with Auricle.
        """
        self._voices = shipped_voices() if voices is None else voices
        self._log_mel = LogMel(_SETTINGS)
        self._rate_hz = rate_hz
        self._takes = {label: self._voices.of(self._log_mel(clips)) for label, clips in takes.items()}

    def accepts(self, label: str, window: Floats) -> bool:
        """Tell whether a window, float32 [samples], in which a label was heard, is by who recorded its takes."""
        return label not in self._takes or self.likeness(label, window) >= LEAST

    def likeness(self, label: str, window: Floats) -> float:
        """Return how much more likely a window is by who recorded a label's takes than by anybody, as a logarithm."""
        samples = loudest_stretch(resample(window, self._rate_hz, _SETTINGS.sample_rate_hz), _SETTINGS)
        heard = self._voices.of(self._log_mel(samples[None]))
        return float(self._voices.likeness(self._takes[label], heard)[0])

    def strange(self, label: str) -> int:
        """Return how many takes of a label would be refused if the others were all that is known of it."""
        takes = self._takes[label]
        others = (np.delete(takes, row, axis=0) for row in range(len(takes)))
        alone = [self._voices.likeness(rest, takes[[row]])[0] for row, rest in enumerate(others)]
        return int(np.sum(np.array(alone) < LEAST))


@dataclass(frozen=True)
class OnlyMe:
    """What became of one label with ``only_me``: why everybody is heard, "" where not so, else perhaps an advice."""

    label: str
    takes: int
    open_because: str = ""
    advice: str = ""

    @property
    def said(self) -> str:
        """What it is, for people."""
        if self.open_because:
            return f"everybody is heard: {self.open_because}"
        return self.advice or f"the voice of {self.takes} takes"


def open_gate(config: Config, rate_hz: int, lasting: Collection[str] = ()) -> tuple[SpeakerGate | None, list[OnlyMe]]:
    """Learn the voice of who recorded each label with ``only_me``; None where there is none that can be learned.

    ``rate_hz`` is that of the windows that will be judged, ``lasting`` has the labels of everyday sounds.
    """
    source = Recordings(config.clips_folder, _SETTINGS)
    wanted = [label for label, chosen in config.labels.items() if chosen.only_me]
    takes = {label: source.load(source.clips(label)[:_MOST_TAKES]) for label in wanted if label not in lasting}
    known = {label: clips for label, clips in takes.items() if len(clips) >= FEWEST_TAKES}
    gate = SpeakerGate(known, rate_hz) if known else None
    return gate, [_became(label, gate, len(takes.get(label, ())), sound=label in lasting) for label in wanted]


def _became(label: str, gate: SpeakerGate | None, takes: int, *, sound: bool) -> OnlyMe:
    if sound:
        return OnlyMe(label, takes, "it is an everyday sound, which has nobody's voice")
    if gate is None or takes < FEWEST_TAKES:
        few = f"{takes} takes do not tell whose voice it is; {FEWEST_TAKES} do, ten do better"
        return OnlyMe(label, takes, f"{few}: auricle-edge record {shlex.quote(label)}")
    strange = gate.strange(label)
    told = f"{strange} of {takes} takes are as if by somebody else, so it will miss its owner: let one person record it"
    return OnlyMe(label, takes, advice=told if strange > _STRANGE * takes else "")
