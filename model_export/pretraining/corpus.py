"""The sounds that a front end is trained on, as log-mel pictures in memory: who speaks, and which word.

Three layouts are read: an archive of pictures, Speech Commands' folders (Warden 2018), and any ``<label>/*`` folder.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import FORMATS, SUFFIXES, loudest_stretch, read_recording, word_and_speaker
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.feature_settings import FeatureSettings, LogMelSettings, preset
from fleet_protocol.numbers.arrays import Array, Floats
from model_export.errors import CorpusError
from model_export.pretraining.pictures import BANDS, decode, picture_paths, speaker_and_word, to_pixels

NOISE = "_noise_"
"""The label of clips in which nobody speaks, whatever folder they come from."""
SPEECH = "_speech_"
"""The label of seconds of connected speech: a class of the training, but no word."""
NOBODY = ""
SETTINGS = cast(LogMelSettings, preset("log_mel"))
"""The log-mel front end before the network; that of the pictures."""
_NOISES = ("_background_noise_", "_silence_", NOISE)


@dataclass(frozen=True)
class Corpus:
    """Clips of one second."""

    # uint8 [clips, 98, bands]; :data:`model_export.pretraining.pictures.LOG_POWERS` says what they mean. In bands above
    # those of a picture stands its highest.
    pixels: NDArray[np.uint8]
    words: NDArray[np.str_]  # the word of every clip, ``NOISE`` where nobody speaks, or ``SPEECH``
    speakers: NDArray[np.str_]  # who speaks; ``NOBODY`` where that is not known

    def __len__(self) -> int:
        return len(self.words)

    @property
    def settings(self) -> LogMelSettings:
        """The log-mel front end that the clips are from."""
        return settings_of(self.pixels.shape[2])

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words, without ``NOISE`` and ``SPEECH``, in alphabetical order."""
        return tuple(sorted({str(word) for word in self.words} - {NOISE, SPEECH}))

    def where(self, chosen: Array) -> Corpus:
        """Return the clips that a boolean array or an array of indices names."""
        return Corpus(self.pixels[chosen], self.words[chosen], self.speakers[chosen])

    def joined(self, other: Corpus) -> Corpus:
        """Return both corpora's clips."""
        names = [field.name for field in dataclasses.fields(self)]
        return Corpus(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def digest(self) -> str:
        """Return the SHA-256 of the clips' words, speakers and pixels, in hexadecimal digits."""
        state = hashlib.sha256()
        for word, speaker in zip(self.words, self.speakers, strict=True):
            state.update(f"{word}\t{speaker}\n".encode())
        state.update(np.ascontiguousarray(self.pixels).tobytes())
        return state.hexdigest()


@dataclass(frozen=True)
class Division:
    """A corpus in the parts that a pretraining needs."""

    training: Corpus  # clips that the network is trained on
    validation: Corpus  # the same words by speakers left out of training
    new_words: Corpus  # words left out of training, by all speakers


def divide(corpus: Corpus, speakers: Iterable[str], words: Iterable[str]) -> Division:
    """Leave speakers and words out of training.

    Raises CorpusError: a word is not in the corpus, or too little is left to train on.
    """
    words = list(words)
    unknown = sorted(set(words) - set(corpus.vocabulary))
    if unknown:
        raise CorpusError(
            f"--leave-out-words names {', '.join(unknown)}, which the corpus does not have; "
            f"it has {', '.join(corpus.vocabulary)}"
        )
    left_out = np.isin(corpus.speakers, list(speakers)) & (corpus.speakers != NOBODY)
    new = np.isin(corpus.words, words)
    division = Division(corpus.where(~left_out & ~new), corpus.where(left_out & ~new), corpus.where(new))
    if len(division.training.vocabulary) < 2:
        raise CorpusError(
            f"{len(division.training)} clips of {len(division.training.vocabulary)} words are left to train on; "
            "at least two words are needed: leave fewer speakers and words out"
        )
    return division


def settings_of(bands: int) -> LogMelSettings:
    """Return the log-mel front end of so many bands, the lowest of which are those of :data:`SETTINGS`."""
    width = np.log1p(SETTINGS.high_hz / 700) / (SETTINGS.mel_bands + 1)
    high_hz = float(700 * np.expm1(width * (bands + 1)))
    return SETTINGS if bands == SETTINGS.mel_bands else replace(SETTINGS, mel_bands=bands, high_hz=high_hz)


def read_corpus(data: Sequence[Path], settings: LogMelSettings = SETTINGS) -> Corpus:
    """Read archives of pictures and folders of recordings into one corpus, by settings of :func:`settings_of`.

    Raises CorpusError: a path is neither, or holds no clips; RecordingError: a recording cannot be read.
    """
    return functools.reduce(Corpus.joined, (_read(path, settings) for path in data))


def _read(archive: Path, settings: LogMelSettings) -> Corpus:
    if archive.is_dir():
        features, *said = read_log_mel(archive, settings)
        return Corpus(to_pixels(features), *said)
    paths = picture_paths(archive)
    names = []
    for path in paths:
        speaker, word = speaker_and_word(path)
        names.append((NOISE if path.parent.name in _NOISES else word or path.parent.name, speaker))
    words, speakers = zip(*names, strict=True)
    unknown = settings.mel_bands - BANDS
    pixels = np.pad(decode(archive, paths), ((0, 0), (0, 0), (0, unknown)), "edge")
    return Corpus(pixels, np.array(words), np.array(speakers))


def speakers_of(folder: Path) -> set[str]:
    """Return who speaks in a folder of recordings or an archive of pictures. Raises CorpusError: it holds neither."""
    if folder.is_dir():
        return {speaker for _, _, speaker in list_recordings(folder)} - {NOBODY}
    return {speaker_and_word(path)[0] for path in picture_paths(folder)} - {NOBODY}


def read_log_mel(
    folder: Path, settings: LogMelSettings = SETTINGS
) -> tuple[Floats, NDArray[np.str_], NDArray[np.str_]]:
    """Read recordings as :func:`read_features` does, as ln(power + 1e-6), float32 [clips, 98, bands]."""
    return read_features(folder, settings, open_front_end(settings))


def read_features(
    folder: Path, settings: FeatureSettings, compute: Callable[[Floats], Floats]
) -> tuple[Floats, NDArray[np.str_], NDArray[np.str_]]:
    """Read recordings in ``<label>/*``: features, float32 [clips, ...], the clips' words and their speakers.

    Long ones of noise count second by second. ``compute``: from clips, float32 [clips, samples], to features. Raises
    CorpusError: there are none; RecordingError: a recording cannot be read.
    """
    features, words, speakers = [], [], []
    for path, word, speaker in list_recordings(folder):
        samples = read_recording(path, settings.sample_rate_hz)
        count = len(samples) // settings.clip_samples
        if word == NOISE and count > 1:
            clips = samples[: count * settings.clip_samples].reshape(count, -1)
        else:
            clips = loudest_stretch(samples, settings)[None]
        features.append(compute(clips))
        words += [word] * len(clips)
        speakers += [speaker] * len(clips)
    return np.concatenate(features), np.array(words), np.array(speakers)


def list_recordings(folder: Path) -> list[tuple[Path, str, str]]:
    """List a folder's recordings with word and speaker. Raises CorpusError: there are none."""
    found = []
    for path in sorted(folder.glob("*/*")):
        if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in path.parts[-2:]):
            continue
        label = path.parent.name
        if label in _NOISES:
            found.append((path, NOISE, NOBODY))
        else:  # a word may stand before the speaker: _unknown_/bed_<speaker>_nohash_<n>.flac
            word, speaker = word_and_speaker(path)
            found.append((path, word or label, speaker))
    if not found:
        raise CorpusError(f"{folder} holds no recordings as <label>/*{FORMATS}")
    return found
