"""What a device heard, as embeddings: takes in a few variants each, "not that", the room, noise, and spliced clips."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import Recordings, require_whole
from edge_client.clips.folders import BACKGROUND, REJECTED
from edge_client.config import Config
from edge_client.errors import RecordingError
from edge_client.features.augmentation import (
    BackgroundNoise,
    augment_for_listening,
    augment_takes,
    parts_of,
    reverberate,
    splice,
)
from edge_client.features.front_end import FrontEnd, open_front_end
from edge_client.learning.teaching.head_material import Heard
from edge_client.storage.embedding_cache import EmbeddingCache, clip_key
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FeatureSettings

log = logging.getLogger(__name__)

# Artificial noise: levels in dB full scale, and how its amplitude falls with frequency (white to brown).
_LEVELS_DB = (-75.0, -15.0)
_SLOPES = (0.0, 1.2)
# Variants of a clip besides itself: the front end costs more than all else, and draws around them cost nothing.
_VARIANTS = 7
# Share of a word's variants that are heard across a room. With all of them its owner is missed no less there, and words
# of the pretraining more (tuning words: Bengali digits by `words`).
_FAR = 0.5
# Windows of the room, of artificial noise, and of spliced clips.
_ROOM, _NOISE, _SPLICED = 40, 40, 20
# Clips of a label that are looked at; rounds see all of them in time.
_MAX_CLIPS = 200
# Changes with how variants are made, so that nothing made in another way is taken from the cache.
_VERSION = 2


def rooms(config: Config, settings: FeatureSettings) -> tuple[Floats, ...]:
    """Return recordings of the room: those that ``record`` made before the takes, and [recordings] background.

    Raises RecordingError if [recordings] background holds no recording that can be used.
    """
    rate_hz, folder = settings.sample_rate_hz, config.recordings.background
    given = BackgroundNoise.load(folder, rate_hz).recordings if folder is not None and folder.is_dir() else ()
    return (*_recorded(config.clips_folder / BACKGROUND, rate_hz), *given)


def _recorded(folder: Path, rate_hz: int) -> tuple[Floats, ...]:
    try:
        return BackgroundNoise.load(folder, rate_hz).recordings if folder.is_dir() else ()
    except RecordingError as error:  # all are damaged: each was named, and the owner's teaching must go on
        log.warning("%s", error)
        return ()


def windows(recordings: tuple[Floats, ...], settings: FeatureSettings, rng: np.random.Generator, count: int) -> Floats:
    """Draw clip-long stretches of the room at several volumes: float32 [count, clip_samples]; none without a room."""
    length = settings.clip_samples
    rows = np.empty((count if recordings else 0, length), np.float32)
    for row in rows:
        room = recordings[rng.integers(len(recordings))]
        start = rng.integers(max(1, len(room) - length + 1))
        row[:] = np.resize(room[start : start + length], length) * rng.uniform(0.1, 1.0)
    return rows


def artificial_noise(count: int, settings: FeatureSettings, rng: np.random.Generator) -> Floats:
    """Return clips of noise, white to brown, from nearly silent to loud: float32 [count, clip_samples]."""
    length = settings.clip_samples
    frequency = np.maximum(np.fft.rfftfreq(length), 1 / length)
    clips = np.empty((count, length), np.float32)
    for clip in clips:
        spectrum = rng.normal(size=len(frequency)) + 1j * rng.normal(size=len(frequency))
        noise = np.fft.irfft(spectrum * frequency ** -rng.uniform(*_SLOPES), length)
        clip[:] = noise / np.sqrt(np.mean(noise**2)) * 10 ** (rng.uniform(*_LEVELS_DB) / 20)
    return np.clip(clips, -1.0, 1.0, out=clips)


class Hearing:
    """Computes embeddings of what one device has, or takes them from its cache."""

    def __init__(self, config: Config, settings: FeatureSettings, cache_path: Path) -> None:
        self._config = config
        self._settings = settings
        self._front_end: FrontEnd = open_front_end(settings)
        self._seed = config.device.seed
        self._cache = EmbeddingCache(cache_path, f"{_VERSION} {settings.digest} {_VARIANTS} {self._seed}")
        self._room = rooms(config, settings)
        rng = np.random.default_rng(self._seed)
        self._backgrounds = BackgroundNoise((*self._room, *artificial_noise(12, settings, rng)))

    def heard(self) -> Heard:
        """Return all of it, and save the cache; labels without a readable clip are left out."""
        folder = self._config.clips_folder
        takes, paths = self._takes(folder)
        rejected, _ = self._takes(folder / REJECTED)
        rng = np.random.default_rng([self._seed, 1])
        quiet = [artificial_noise(_NOISE, self._settings, rng), windows(self._room, self._settings, rng, _ROOM)]
        nothing = np.concatenate([self._windows(part) for part in quiet])
        spliced = self._spliced(paths) if len(paths) > 1 else self._none()
        parts = self._parts(paths)
        self._cache.save()
        return Heard(takes, nothing, spliced, rejected, parts)

    def _takes(self, folder: Path) -> tuple[dict[str, Floats], dict[str, list[Path]]]:
        """Return the embeddings of a folder's clips by label, and the clips that could be read."""
        takes: dict[str, Floats] = {}
        paths: dict[str, list[Path]] = {}
        source = self._source(folder)
        for label in source.labels() if folder.is_dir() else ():
            drawn = source.clips_for_round(0, label)
            found = [(path, rows) for path in drawn if (rows := self._clip(source, path)) is not None]
            if found:
                takes[label] = np.stack([rows for _, rows in found])
                paths[label] = [path for path, _ in found]
        return takes, paths

    def _source(self, folder: Path) -> Recordings:
        return Recordings(folder, self._settings, per_round=(_MAX_CLIPS, _MAX_CLIPS), seed=self._seed)

    def _clip(self, source: Recordings, path: Path) -> Floats | None:
        """Return a clip and its variants, float32 [1 + variants, numbers]; None where it cannot be read."""
        try:
            require_whole(path)
            key = clip_key(path)
        except (OSError, RecordingError) as error:
            log.warning("left out a recording: %s", error)
            return None

        def compute() -> Floats:
            clip = source.load([path])
            rng = np.random.default_rng([self._seed, int(key, 16)])
            rate = self._settings.sample_rate_hz
            variants = [self._variant(clip, rate, rng) for _ in range(_VARIANTS if len(clip) else 0)]
            return self._embed(np.concatenate([clip, *variants]))

        rows = self._cache.get(key, compute)
        return rows if len(rows) else None

    def _parts(self, paths: dict[str, list[Path]]) -> dict[str, Floats]:
        """Return ``Heard.parts`` of labels with a long word; a sound may end and go on as it likes."""
        if self._settings.hears_sounds:
            return {}
        source = self._source(self._config.clips_folder)

        def parts(path: Path) -> Floats:
            def compute() -> Floats:
                rng = np.random.default_rng([self._seed, 3, int(clip_key(path), 16)])
                found = [parts_of(clip, self._settings.sample_rate_hz) for clip in source.load([path])]
                varied = [self._variant(part, self._settings.sample_rate_hz, rng) for part in found if len(part)]
                return self._embed(np.concatenate(varied)) if varied else self._none()

            return self._cache.get(f"parts-{clip_key(path)}", compute)

        found = {label: [rows for path in taken if len(rows := parts(path))] for label, taken in paths.items()}
        return {label: np.stack(rows) for label, rows in found.items() if rows}

    def _variant(self, clip: Floats, rate_hz: int, rng: np.random.Generator) -> Floats:
        # A word is taught near the microphone and said across the room. Of sounds this was not measured.
        far = not self._settings.hears_sounds and rng.random() < _FAR
        return augment_takes(reverberate(clip, rate_hz, rng) if far else clip, rate_hz, rng, self._backgrounds)

    def _spliced(self, paths: dict[str, list[Path]]) -> Floats:
        """Return sounds that are no label's, float32 [windows, numbers], made of a few clips of every label."""
        each = max(2, _SPLICED // len(paths))
        chosen = {label: found[:each] for label, found in paths.items()}
        keys = "".join(clip_key(path) for found in chosen.values() for path in found)

        def compute() -> Floats:
            source = self._source(self._config.clips_folder)
            clips = {label: source.load(found) for label, found in chosen.items()}
            owners = np.repeat(np.arange(len(clips)), [len(part) for part in clips.values()])
            rng = np.random.default_rng([self._seed, 2])
            spliced = splice(np.concatenate(list(clips.values())), owners, rng)[:_SPLICED]
            return self._embed(augment_for_listening(spliced, self._settings.sample_rate_hz, rng, self._backgrounds))

        return self._keyed("spliced", keys.encode(), compute)

    def _windows(self, samples: Floats) -> Floats:
        return self._keyed("windows", samples.tobytes(), lambda: self._embed(samples))

    def _keyed(self, kind: str, content: bytes, compute: Callable[[], Floats]) -> Floats:
        return self._cache.get(f"{kind}-{hashlib.sha256(content).hexdigest()[:32]}", compute)

    def _embed(self, samples: Floats) -> Floats:
        return self._front_end(samples)[:, 0] if len(samples) else self._none()

    def _none(self) -> Floats:
        return np.zeros((0, self._settings.shape[1]), np.float32)
