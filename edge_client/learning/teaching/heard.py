"""What a device heard, as embeddings: takes in a few variants each, "not that", the room, noise, and spliced clips."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from edge_client.audio.recordings import Recordings, loud_stretch, read_recording, require_whole, whole_stretch
from edge_client.clips.embedding_cache import EmbeddingCache, clip_key
from edge_client.clips.folders import BACKGROUND, REJECTED
from edge_client.config import Config
from edge_client.detection.scores import AFTER_S, BEFORE_S, STATES, TABLE
from edge_client.errors import RecordingError
from edge_client.features.augmentation import (
    BackgroundNoise,
    augment_for_listening,
    augment_takes,
    parts_of,
    reverberate,
    splice,
)
from edge_client.features.embedding import JointEmbedding
from edge_client.features.front_end import FrontEnd, open_front_end
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats

log = logging.getLogger(__name__)

# Artificial noise: levels in dB full scale, and how its amplitude falls with frequency (white to brown).
_LEVELS_DB = (-75.0, -15.0)
_SLOPES = (0.0, 1.2)
# Variants of a clip besides itself: the front end costs more than all else, and draws around them cost nothing.
_VARIANTS = 7
# Variants of what follows a word: a mean of few will do.
_VARIANTS_AFTER = 3
# Share of a word's variants that are heard across a room: it is taught near the microphone and said from further away.
_FAR = 0.5
# Windows of the room, of artificial noise, and of spliced clips.
_ROOM, _NOISE, _SPLICED = 40, 40, 20
# Clips of a label that are looked at; rounds see all of them in time.
_MAX_CLIPS = 200
# Changes with how variants are made, so that nothing made in another way is taken from the cache.
_VERSION = 2
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Before:
    """What windows half a second before a word's takes hold, a second, and so on, and the word's length, s.

    rows: float32 [states, windows, numbers]
    after: What windows hold a quarter of a second later, where nothing follows and where talk does, float32 [2,
        windows, numbers]; of the owner's takes alone.
    """

    rows: Floats
    length_s: float
    after: Floats | None = None


@dataclass(frozen=True)
class Embeddings:
    """Of what the device itself heard, float32; the last axis counts the embedding's numbers."""

    takes: Mapping[str, Floats]  # by label, [clips, variants, numbers]; the first variant is the clip as recorded
    nothing: Floats  # windows of the room when nothing happens, and of artificial noise, [windows, numbers]
    spliced: Floats  # windows made of pieces of several labels' clips, [windows, numbers]
    rejected: Mapping[str, Floats] = field(default_factory=dict)  # by label, what the owner said is not it; as takes
    # By label, what is less than the whole of a take, [takes, parts, numbers]; long words alone.
    parts: Mapping[str, Floats] = field(default_factory=dict)
    before: Mapping[str, Before] = field(default_factory=dict)  # by label; of words
    rejected_before: Mapping[str, Before] = field(default_factory=dict)  # the same of what is not these words


def states_before(length_s: float) -> int:
    """Return how many windows, each half a second older, hold a part of a word of a length, s; 0 of a short one."""
    if length_s <= TABLE.from_s:
        return 0
    return min(STATES, 1 + max(0, int((length_s - TABLE.fully_s) / BEFORE_S + _ROUNDING)))


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


class Embedder:
    """Computes embeddings of what one device has, or takes them from its cache."""

    def __init__(self, config: Config, settings: FeatureSettings, cache_path: Path) -> None:
        self._config = config
        self._settings = settings
        front_end = open_front_end(settings)
        # A word and a sound of two networks are of one length each, and vary in their own ways.
        self._ears: tuple[FrontEnd, ...] = front_end.parts if isinstance(front_end, JointEmbedding) else (front_end,)
        self._seed = config.device.seed
        self._cache = EmbeddingCache(cache_path, f"{_VERSION} {settings.digest} {_VARIANTS} {self._seed}")
        self._room = rooms(config, settings)
        rng = np.random.default_rng(self._seed)
        self._backgrounds = BackgroundNoise((*self._room, *artificial_noise(12, settings, rng)))

    def embeddings(self) -> Embeddings:
        """Return all of it, and save the cache; labels without a readable clip are left out."""
        folder = self._config.clips_folder
        takes, paths = self._takes(folder)
        rejected, denied = self._takes(folder / REJECTED)
        nothing = np.concatenate([self._windows(parts) for parts in zip(*map(self._quiet, self._ears), strict=True)])
        spliced = self._spliced(paths) if len(paths) > 1 else self._none()
        parts, before = self._parts(paths), self._before(paths)
        lengths = {label: before[label].length_s for label in denied.keys() & before.keys()}
        rejected_before = self._before({label: denied[label] for label in lengths}, lengths)
        self._cache.save()
        return Embeddings(takes, nothing, spliced, rejected, parts, before, rejected_before)

    def _takes(self, folder: Path) -> tuple[dict[str, Floats], dict[str, list[Path]]]:
        """Return the embeddings of a folder's clips by label, and the clips that could be read."""
        takes: dict[str, Floats] = {}
        paths: dict[str, list[Path]] = {}
        source = Recordings(folder, self._settings, per_round=(_MAX_CLIPS, _MAX_CLIPS), seed=self._seed)
        for label in source.labels() if folder.is_dir() else ():
            drawn = source.clips_for_round(0, label)
            found = [(path, rows) for path in drawn if (rows := self._clip(path)) is not None]
            if found:
                takes[label] = np.stack([rows for _, rows in found])
                paths[label] = [path for path, _ in found]
        return takes, paths

    def _clip(self, path: Path) -> Floats | None:
        """Return a clip and its variants, float32 [1 + variants, numbers]; None where it cannot be read."""
        try:
            require_whole(path)
            key = clip_key(path)
        except (OSError, RecordingError) as error:
            log.warning("left out a recording: %s", error)
            return None

        def varied(ear: FrontEnd) -> Floats:
            clip = self._load([path], ear)
            rng = np.random.default_rng([self._seed, int(key, 16)])
            variants = [self._variant(clip, ear.settings, rng) for _ in range(_VARIANTS if len(clip) else 0)]
            return np.concatenate([clip, *variants])

        rows = self._cache.get(key, lambda: self._embed(list(map(varied, self._ears))))
        return rows if len(rows) else None

    def _parts(self, paths: dict[str, list[Path]]) -> dict[str, Floats]:
        """Return ``Embeddings.parts`` of labels with a long word; a sound may end and go on as it likes."""
        ear = self._ears[0]
        if self._settings.hears_sounds:
            return {}

        def parts(path: Path) -> Floats:
            rng = np.random.default_rng([self._seed, 3, int(clip_key(path), 16)])
            found = [parts_of(clip, ear.settings.sample_rate_hz) for clip in self._load([path], ear)]
            varied = [self._variant(part, ear.settings, rng) for part in found if len(part)]
            return self._of_words(np.concatenate(varied)) if varied else self._none()

        rows = {label: [self._of_clip("parts", path, parts) for path in taken] for label, taken in paths.items()}
        return {label: np.stack(some) for label, every in rows.items() if (some := [one for one in every if len(one)])}

    def _before(
        self, paths: dict[str, list[Path]], lengths: Mapping[str, float] = MappingProxyType({})
    ) -> dict[str, Before]:
        """Return ``Embeddings.before`` of labels whose word is long enough for it.

        ``lengths`` of words by label, s; of any other label it is the median of the recordings.
        """
        ear, rate_hz = self._ears[0], self._ears[0].settings.sample_rate_hz
        if self._settings.hears_sounds:
            return {}

        def length_s(path: Path) -> Floats:
            samples = read_recording(path, rate_hz)
            begin, end = loud_stretch(samples[slice(*whole_stretch(samples, ear.settings))], rate_hz)
            return np.array([(end - begin) / rate_hz], np.float32)

        def rows(path: Path, states: int) -> Floats:
            rng = np.random.default_rng([self._seed, 4, int(clip_key(path), 16)])
            whole = self._load([path], ear, states * BEFORE_S)
            varied = np.concatenate([self._variant(whole, ear.settings, rng) for _ in range(_VARIANTS)])
            hop, size = round(BEFORE_S * rate_hz), ear.settings.clip_samples
            starts = [(states - state) * hop for state in range(1, states + 1)]
            found = self._of_words(np.concatenate([varied[:, start : start + size] for start in starts]))
            return found.reshape(states, _VARIANTS, -1)

        def after(path: Path) -> Floats:
            rng, count = np.random.default_rng([self._seed, 5, int(clip_key(path), 16)]), round(AFTER_S * rate_hz)
            clip, found = self._load([path], ear), []
            begin, end = loud_stretch(clip[0], rate_hz)
            for _ in range(_VARIANTS_AFTER):
                # Some piece of the take itself stands for talk that goes on.
                start = begin + int(rng.integers(max(1, end - begin - count)))
                for then in (np.zeros(count, np.float32), clip[0, start : start + count]):
                    samples = np.append(clip[0], np.resize(then, count))[None]
                    found.append(self._variant(samples, ear.settings, rng)[:, count:])
            return self._of_words(np.concatenate(found)).reshape(_VARIANTS_AFTER, 2, -1).swapaxes(0, 1)

        found = {}
        for label, taken in paths.items():
            length = lengths.get(label) or float(np.median([self._of_clip("length", path, length_s) for path in taken]))
            if states := states_before(length):
                compute = functools.partial(rows, states=states)
                windows = [self._of_clip(f"before-{states}", path, compute) for path in taken]
                later = None
                if label not in lengths:
                    later = np.concatenate([self._of_clip("after", path, after) for path in taken], axis=1)
                found[label] = Before(np.concatenate(windows, axis=1), length, later)
        return found

    def _of_clip(self, kind: str, path: Path, compute: Callable[[Path], Floats]) -> Floats:
        return self._cache.get(f"{kind}-{clip_key(path)}", lambda: compute(path))

    def _of_words(self, clips: Floats) -> Floats:
        """Return embeddings of clips as words: nobody asks what sound a part of a word is."""
        rows = self._ears[0](clips)[:, 0]
        return np.pad(rows, ((0, 0), (0, self._settings.shape[1] - rows.shape[1])))

    def _variant(self, clip: Floats, settings: FeatureSettings, rng: np.random.Generator) -> Floats:
        far, rate_hz = not settings.hears_sounds and rng.random() < _FAR, settings.sample_rate_hz
        return augment_takes(reverberate(clip, rate_hz, rng) if far else clip, rate_hz, rng, self._backgrounds)

    def _spliced(self, paths: dict[str, list[Path]]) -> Floats:
        """Return sounds that are no label's, float32 [windows, numbers], made of a few clips of every label."""
        each = max(2, _SPLICED // len(paths))
        chosen = {label: found[:each] for label, found in paths.items()}
        keys = "".join(clip_key(path) for found in chosen.values() for path in found)

        def spliced(ear: FrontEnd) -> Floats:
            clips = {label: self._load(found, ear) for label, found in chosen.items()}
            owners = np.repeat(np.arange(len(clips)), [len(part) for part in clips.values()])
            rng = np.random.default_rng([self._seed, 2])
            spliced = splice(np.concatenate(list(clips.values())), owners, rng)[:_SPLICED]
            return augment_for_listening(spliced, ear.settings.sample_rate_hz, rng, self._backgrounds)

        return self._keyed("spliced", keys.encode(), lambda: self._embed(list(map(spliced, self._ears))))

    def _load(self, paths: list[Path], ear: FrontEnd, before_s: float = 0.0) -> Floats:
        return Recordings(self._config.clips_folder, ear.settings).load(paths, before_s)

    def _quiet(self, ear: FrontEnd) -> tuple[Floats, Floats]:
        rng = np.random.default_rng([self._seed, 1])
        return artificial_noise(_NOISE, ear.settings, rng), windows(self._room, ear.settings, rng, _ROOM)

    def _windows(self, samples: Sequence[Floats]) -> Floats:
        content = b"".join(part.tobytes() for part in samples)
        return self._keyed("windows", content, lambda: self._embed(samples))

    def _keyed(self, kind: str, content: bytes, compute: Callable[[], Floats]) -> Floats:
        return self._cache.get(f"{kind}-{hashlib.sha256(content).hexdigest()[:32]}", compute)

    def _embed(self, samples: Sequence[Floats]) -> Floats:
        """Return the embeddings, float32 [clips, numbers], of what each ear hears of them."""
        rows = [ear(clips)[:, 0] for ear, clips in zip(self._ears, samples, strict=True) if len(clips)]
        return np.concatenate(rows, axis=1) if rows else self._none()

    def _none(self) -> Floats:
        return np.zeros((0, self._settings.shape[1]), np.float32)
