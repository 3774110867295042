"""The words of Speech Commands' test set as a device hears them, and who gets which: public set, devices, or nobody."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import loudest_stretch, read_recording, speaker_of
from edge_client.features.augmentation import BackgroundNoise, augment_takes
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.hearing import artificial_noise
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.feature_settings import FeatureSettings

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
# As a device makes them of its clips.
_VARIANTS, _NOISES = 7, 12


@dataclass(frozen=True)
class Words:
    """Every clip of the words."""

    embeddings: Floats  # float32 [clips, variants, numbers]; the first variant is the clip as it was recorded
    words: NDArray[np.str_]  # the word of every clip
    speakers: NDArray[np.str_]  # who speaks
    nothing: Floats  # embeddings of windows in which nobody speaks, float32 [windows, numbers]


def read_words(folder: Path, settings: FeatureSettings, cache: Path) -> Words:
    """Compute the embeddings of a folder's words once; later runs read them from the cache."""
    paths = [path for word in WORDS for path in sorted((folder / word).iterdir())]
    names = "\n".join(f"{path.parent.name}/{path.name} {path.stat().st_size}" for path in paths)
    key = hashlib.sha256(f"{settings.digest} {_VARIANTS}\n{names}".encode()).hexdigest()[:16]
    file = cache / f"words-{key}.npz"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        rows = np.stack(list(_embedded(paths, settings)))
        noise = artificial_noise(40, settings, np.random.default_rng(1))
        np.savez(file, embeddings=rows, nothing=open_front_end(settings)(noise)[:, 0])
    kept = np.load(file)
    words = np.array([path.parent.name for path in paths])
    return Words(kept["embeddings"], words, np.array([speaker_of(path) for path in paths]), kept["nothing"])


def _embedded(paths: list[Path], settings: FeatureSettings) -> Iterator[Floats]:
    front_end, rate = open_front_end(settings), settings.sample_rate_hz
    rng = np.random.default_rng(0)
    noises = BackgroundNoise(tuple(artificial_noise(_NOISES, settings, rng)))
    for path in paths:
        clip = loudest_stretch(read_recording(path, rate), settings)[None]
        variants = [augment_takes(clip, rate, rng, noises) for _ in range(_VARIANTS)]
        yield front_end(np.concatenate([clip, *variants]))[:, 0]


@dataclass(frozen=True)
class Dealt:
    """Who has which clips, as rows of the corpus."""

    public: Ints  # of the public set; only words that the fleet starts with
    strangers: Ints  # by people whom no device and no public set knows
    devices: tuple[Ints, ...]  # of each device, to learn from
    held_out: tuple[Ints, ...]  # of each device, by the same people, to be judged on
    new: tuple[str, ...]  # words that the fleet does not start with

    @property
    def known(self) -> tuple[str, ...]:
        """Words that the fleet starts with."""
        return tuple(word for word in WORDS if word not in self.new)


@dataclass(frozen=True)
class Fleet:
    """How a fleet is dealt."""

    name: str  # in the results
    devices: int = 40  # how many
    clips: int = 40  # of each device, to learn from
    held_out: int = 20  # of each device, to be judged on. Where there are too few clips for both, a third is held out.
    new: tuple[str, ...] = ()  # words that only some devices were taught, and no public set has
    taught: float = 0.2  # share of the devices that were taught the new words
    public: float = 0.08  # share of the people whose clips are public
    strangers: float = 0.15  # share of the people whom nobody knows


def deal(fleet: Fleet, words: NDArray[np.str_], speakers: NDArray[np.str_], seed: int) -> Dealt:
    """Deal whole people out: each device hears a household of them."""
    rng = np.random.default_rng([seed, 5])
    people = rng.permutation(np.unique(speakers))
    rows = [rng.permutation(np.flatnonzero(speakers == person)) for person in people]
    counts = np.cumsum([len(part) for part in rows])
    first, second = np.searchsorted(counts, [fleet.public * counts[-1], (fleet.public + fleet.strangers) * counts[-1]])
    public, strangers = np.concatenate(rows[:first]), np.concatenate(rows[first:second])
    households: list[list[Ints]] = [[] for _ in range(fleet.devices)]
    for part in sorted(rows[second:], key=len, reverse=True):  # the largest to whoever has the fewest
        min(households, key=lambda household: sum(map(len, household))).append(part)
    is_new = np.isin(words, fleet.new)
    devices, held_out = [], []
    for number, household in enumerate(households):
        clips = rng.permutation(np.concatenate(household))
        if number >= fleet.taught * fleet.devices:
            clips = clips[~is_new[clips]]
        train = min(fleet.clips, len(clips) * 2 // 3)
        devices.append(clips[:train])
        held_out.append(clips[train : train + fleet.held_out])
    return Dealt(public[~is_new[public]], strangers, tuple(devices), tuple(held_out), fleet.new)
