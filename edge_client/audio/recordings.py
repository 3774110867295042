"""Clips from a folder of recordings, ``<label>/*.wav|flac|ogg|opus|mp3``, dealt out to rounds at random.

As in Gudur & Perepu 2021, table 1, every round takes a random number of clips of each label (200 to 300 there). What
the device records itself it keeps as WAV files of one channel, 16 bit, which are named by the digest of their content.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import logging
import os
import re
import shlex
import wave
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from edge_client.audio.resampling import require_rate, resample_blocks
from edge_client.errors import AudioError, RecordingError
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats, Ints

_log = logging.getLogger(__name__)

# A taught clip; an unknown sound, behind its number, time and score.
_OWN_NAME = re.compile(r"([0-9a-f]{16})\.wav|\d{8,}-\d{13,}-\d{4}-([0-9a-f]{8})\.wav")
_SPEAKER = re.compile(r"(?:^|_)([0-9a-f]{8})_nohash_")
SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".caf"})
FORMATS = ".wav, .flac, .ogg, .opus, .mp3, .aiff or .caf"
# What is read of a longer file at once, so that one long recording cannot fill a small board's memory, in seconds.
LONGEST_S = 60
# Arrays of microphones have up to so many channels.
_MOST_CHANNELS = 64
# Samples beyond this (24 dB over full scale) were stored in other units than -1..1.
_LOUDEST = 16.0
_SEARCH_STEP_S = 0.01
_LONGEST_WORD_S = 3.0
"""What is said as one word or phrase, at most, s."""
# A frame is loud from a share of the loudest one's power, and from so many times that of the room, where a tenth of the
# frames have less.
_FRAME_S, _LOUD, _ABOVE_ROOM = 0.01, 0.02, 4.0
# Pause within a phrase, and what is kept beside it.
PAUSE_S, BESIDE_S = 0.35, 0.1
# Numbers that are read at once; bytes of a WAV's head, and of its sound where it says no size; how that looks.
_BLOCK, _HEAD, _LARGEST = 1 << 16, 1 << 12, 1 << 26
_NO_SIZE = (b"\0\0\0\0", b"\xff\xff\xff\xff")
# What libsndfile says of a FLAC that was written into a pipe.
_UNKNOWN_FRAMES = 2**63 - 1


def encode_wave(samples: Floats, rate_hz: int) -> bytes:
    """Return a WAV file of float32 [samples], clipped to -1..1, in steps of 2^-15."""
    levels = np.clip(np.rint(samples.astype(np.float64) * 32_768), -32_768, 32_767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(levels.tobytes())
    return buffer.getvalue()


def content_name(data: bytes, digits: int = 16) -> str:
    """Return the name of a sound file that the device keeps: the first hex digits of the SHA-256 of its bytes."""
    return f"{hashlib.sha256(data).hexdigest()[:digits]}.wav"


def require_whole(path: Path) -> None:
    """Compare a file that the device named by its content with its name. Raises RecordingError if it is damaged."""
    match = _OWN_NAME.fullmatch(path.name)
    if match is None:
        return
    named = match[1] or match[2]
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(named):
        raise RecordingError(
            f"{path} is damaged: its name is the digest of what was recorded, and its content is something else; "
            "delete it and record the sound again, or rename it if it is a recording of your own"
        )


class Recordings:
    """Clips of a folder by label, a share of them for each round; ``skipped``: those that were no use, and why.

    A folder counts as a label while it holds a recording and its name starts with neither ``_`` nor ``.``.
    """

    def __init__(
        self, folder: Path, settings: FeatureSettings, per_round: tuple[int, int] | None = None, seed: int = 0
    ) -> None:
        """Read nothing yet; the folder is read again at every question.

        ``per_round``: smallest and largest number of a label's clips in a round; None: all, in every round. ``seed``:
        the device's, not negative; with the round and the label it decides which clips a round takes.
        """
        self.folder = folder
        self.skipped: dict[Path, str] = {}
        self._settings, self._per_round, self._seed = settings, per_round, seed

    def labels(self) -> tuple[str, ...]:
        """Return the labels that are there now, in alphabetical order. Raises RecordingError if that cannot be read."""
        names = (entry.name for entry in _entries(self.folder))
        return tuple(name for name in names if is_unicode(name) and any(self._recordings(name)))

    def clips(self, label: str) -> list[Path]:
        """Return a label's recordings in alphabetical order, if any. Raises RecordingError if that cannot be read."""
        folder = self.folder / label
        found = [folder / entry.name for entry in self._recordings(label)]
        for path, why in odd_ones(_entries(folder)) if found else ():
            self._leave_out(path, why)
        return found

    def _leave_out(self, path: Path, why: str) -> None:
        if path not in self.skipped:
            _log.warning("left out a recording: %s", why)
        self.skipped[path] = why

    def _recordings(self, label: str) -> Iterator[os.DirEntry[str]]:
        folder = self.folder / label
        if label.startswith(("_", ".")) or folder.parent != self.folder or not folder.is_dir():
            return iter(())
        return filter(is_recording, _entries(folder))

    def clips_for_round(self, round_number: int, label: str) -> list[Path]:
        """Return a label's share of a round, drawn without replacement; all of them where there are fewer.

        The draw depends on the device's seed, the round, the label and the names of the recordings, on nothing else.
        """
        clips = self.clips(label)
        if self._per_round is None:
            return clips
        digest = hashlib.sha256(label.encode(errors="surrogateescape")).digest()
        rng = np.random.default_rng([self._seed, round_number, int.from_bytes(digest[:8], "big")])
        wanted = int(rng.integers(self._per_round[0], self._per_round[1] + 1))
        return [clips[i] for i in rng.permutation(len(clips))[:wanted]]

    def load(self, clips: Sequence[Path], before_s: float = 0.0) -> Floats:
        """Return float32 [clips, samples]; a damaged recording is left out, noted in ``skipped`` and logged once.

        ``before_s``: so many seconds of what came before each clip stand before it.
        """
        before = round(before_s * self._settings.sample_rate_hz)
        samples = np.empty((len(clips), before + self._settings.clip_samples), np.float32)
        count = 0
        for path in clips:
            try:
                samples[count] = read_clip(path, self._settings, before)
                count += 1
            except RecordingError as error:
                self._leave_out(path, str(error))
        return samples[:count]


def speaker_of(path: Path) -> str:
    """Return who speaks: the name's part before ``_nohash_``, else before the first ``_``, else the whole stem."""
    stem = path.stem
    return (stem.partition("_nohash_") if "_nohash_" in stem else stem.partition("_"))[0]


def word_and_speaker(path: Path) -> tuple[str, str]:
    """Return the word before the speaker in a name of Speech Commands, ``bed_<speaker>_nohash_<n>``, if any; and who.

    Other names are those of :func:`speaker_of`.
    """
    spoken = _SPEAKER.search(path.name)
    return ("", speaker_of(path)) if spoken is None else (path.name[: spoken.start()], spoken[1])


def read_clip(path: Path, settings: FeatureSettings, before: int = 0) -> Floats:
    """Read one clip: float32 [before + clip_samples] at the settings' rate. Raises RecordingError, which names the
    file.

    Of a longer recording the loudest stretch is taken: a bark or a word may lie anywhere in it, and the start is often
    silence. Of words that last longer it is their end. A shorter recording is padded with zeros at its end.
    ``before``: so many samples that precede the clip in the recording come first; where it holds none, zeros.
    """
    samples = read_recording(path, settings.sample_rate_hz)
    start = max(0, whole_stretch(samples, settings)[1] - settings.clip_samples)
    found = samples[max(0, start - before) : start + settings.clip_samples]
    missing = max(0, before - start)
    return np.pad(found, (missing, before + settings.clip_samples - missing - len(found)))


def loud_stretch(samples: Floats, sample_rate_hz: int) -> tuple[int, int]:
    """Return where the loudest sound of a recording, float32 [samples], begins and ends, in samples.

    Its frames lie within 17 dB of the loudest one and 6 dB above the room, pauses of up to 0.35 s between them. Both
    are 0 in a recording of zeros.
    """
    size, power = _power(samples, sample_rate_hz)
    if not power.any():
        return 0, 0
    whole = max(_sounds(power, power.max()), key=lambda group: power[group].sum())
    return int(whole[0]) * size, (int(whole[-1]) + 1) * size


def since_pause(samples: Floats, settings: FeatureSettings) -> Floats:
    """Return the newest clip of a stretch, float32 [samples], and before it what no pause parts from its loudest sound.

    What was said before a word may be louder than the word.
    """
    size, power = _power(samples, settings.sample_rate_hz)
    first = len(power) - settings.clip_samples // size
    if first <= 0 or not power[first:].any():
        return samples
    sound = max(_sounds(power, power[first:].max()), key=lambda group: power[group[group >= first]].sum())
    begin = int(sound[0]) * size - round(BESIDE_S * settings.sample_rate_hz)
    return samples[max(0, min(begin, len(samples) - settings.clip_samples)) :]


def _power(samples: Floats, sample_rate_hz: int) -> tuple[int, Floats]:
    """Return the length of a frame in samples, and the power of each, float32 [frames]."""
    size = round(_FRAME_S * sample_rate_hz)
    return size, np.square(samples[: len(samples) // size * size].reshape(-1, size)).mean(axis=1)


def _sounds(power: Floats, loudest: float) -> list[Ints]:
    """Return the frames of each sound that is nearly as loud as the loudest frame asked for."""
    room = _ABOVE_ROOM * np.sort(power)[len(power) // 10]
    loud = np.flatnonzero(power > min(max(_LOUD * loudest, room), loudest / 2))
    return np.split(loud, np.flatnonzero(np.diff(loud) > PAUSE_S / _FRAME_S) + 1)


def longest_take_s(settings: FeatureSettings) -> float:
    """Return how much of a take is kept, s: of what is said all, of another sound a clip."""
    return settings.clip_s if settings.hears_sounds else max(settings.clip_s, _LONGEST_WORD_S)


def whole_stretch(samples: Floats, settings: FeatureSettings) -> tuple[int, int]:
    """Return where the loudest clip-long stretch of a recording begins and ends; of longer words all of them."""
    start = loudest_start(samples, settings)
    found = start, min(len(samples), start + settings.clip_samples)
    if settings.hears_sounds:
        return found
    begin, end = loud_stretch(samples, settings.sample_rate_hz)
    beside, longest = (round(time_s * settings.sample_rate_hz) for time_s in (BESIDE_S, _LONGEST_WORD_S))
    if not settings.clip_samples + beside < end - begin <= longest:  # hardly longer is no phrase
        return found
    return max(0, begin - beside), min(len(samples), end + beside)


def loudest_stretch(samples: Floats, settings: FeatureSettings) -> Floats:
    """Return the clip-long stretch of the greatest energy, the first of equals; all of a shorter recording."""
    start = loudest_start(samples, settings)
    return samples[start : start + settings.clip_samples]


def loudest_start(samples: Floats, settings: FeatureSettings) -> int:
    """Return at which sample the loudest stretch begins."""
    length = settings.clip_samples
    if len(samples) <= length:
        return 0
    energy = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    starts = np.arange(0, len(samples) - length + 1, max(1, round(_SEARCH_STEP_S * settings.sample_rate_hz)))
    return int(starts[np.argmax(energy[starts + length] - energy[starts])])


def read_recording(path: Path, sample_rate_hz: int) -> Floats:
    """Read the first minute of a recording as one channel: float32 [samples] in -1..1, resampled to a rate in Hz.

    Raises as :func:`read_blocks`, and RecordingError if it is empty.
    """
    samples: Floats = np.concatenate([np.zeros(0, np.float32), *read_blocks(path, sample_rate_hz, LONGEST_S)])
    if not len(samples):
        raise RecordingError(f"{path} holds no sound at all: record it again")
    return samples


def read_blocks(path: Path, sample_rate_hz: int, most_s: int | None = None) -> Iterator[Floats]:
    """Read a recording once, from its start, as one channel: float32 [any] in -1..1, resampled to a rate in Hz.

    ``most_s``: so many seconds of it, None: all. A block at a time, since one may be long, of a high rate, or of many
    channels; and in order, since libsndfile decodes an MP3 from its start at each search. Raises RecordingError, which
    names the file, if it is missing, damaged, not audio, has more than 64 channels, or holds impossible values;
    AudioError if this machine cannot read audio files at all.
    """
    soundfile = _soundfile()
    try:
        source = _with_sizes(path)  # refuses a pipe, for whose end the next line would wait
        require_whole(path)
        with soundfile.SoundFile(source) as file:
            rate_hz = _rate_of(file, path)
            yield from resample_blocks(_mixed(file, path, most_s), rate_hz, sample_rate_hz)
    except (soundfile.SoundFileError, OSError, TypeError) as error:  # TypeError: of one that is called .raw
        raise _unreadable(path, error) from error


def _rate_of(file: Any, path: Path) -> int:  # noqa: ANN401  (soundfile has no types)
    """Return a file's sample rate in Hz. Raises RecordingError if it is none, or the file has too many channels."""
    if file.channels > _MOST_CHANNELS:
        raise RecordingError(
            f"cannot use {path}: it has {file.channels} channels, and the most is {_MOST_CHANNELS}; save one of them"
        )
    try:
        require_rate(file.samplerate)
    except RecordingError as error:
        raise RecordingError(f"cannot use {path}: {error}") from error
    return int(file.samplerate)


def _mixed(file: Any, path: Path, most_s: int | None) -> Iterator[Floats]:  # noqa: ANN401
    """Yield so many seconds as the mean of the channels."""
    left = None if most_s is None else most_s * file.samplerate
    for block in blocks(file, _BLOCK // file.channels):
        if not np.abs(block).max() <= _LOUDEST:  # fails for NaN too
            raise RecordingError(
                f"{path} holds values that are not sound in -1..1; save it again, as 16-bit integers say"
            )
        mixed = block.mean(axis=1)[:left]
        yield mixed
        if left is not None and not (left := left - len(mixed)):
            return


def blocks(file: Any, size: int) -> Iterator[Floats]:  # noqa: ANN401
    """Yield what an open sound file holds from here on: float32 [at most size, channels]."""
    from soundfile import SoundFileError

    while True:
        block = np.full((size, file.channels), np.nan, np.float32)
        try:
            block = file.read(out=block)
        except SoundFileError:
            if file.frames != _UNKNOWN_FRAMES:
                raise
            # It read to the end, which it cannot find again, as it would afterwards.
            block = block[~np.isnan(block[:, 0])]
        if not len(block):
            return
        yield block


def _with_sizes(path: Path) -> bytes | io.BytesIO:
    """Return a file's name, which need not be UTF-8; of a WAV without sizes, as from a pipe, its content with them."""
    if not path.is_file():  # to open a pipe would wait for whoever writes into it
        raise OSError("it is no regular file, or is not there")
    with path.open("rb") as file:
        head = file.read(_HEAD)
        at = head.find(b"data", 12)
        if head[:4] != b"RIFF" or head[8:12] != b"WAVE" or at < 0 or head[at + 4 : at + 8] not in _NO_SIZE:
            return os.fsencode(path)
        rest = head[at + 8 :] + file.read(_LARGEST)
    size = len(rest).to_bytes(4, "little")
    return io.BytesIO(head[:4] + (at + len(rest)).to_bytes(4, "little") + head[8 : at + 4] + size + rest)


def _unreadable(path: Path, error: Exception) -> RecordingError:
    wave_path = shlex.quote(str(path.with_name(f"{path.stem}-again.wav")))
    way_out = f"save it again as WAV, as by: ffmpeg -i {shlex.quote(str(path))} {wave_path}"
    return RecordingError(f"cannot read {path}: {error}; {way_out}")


def duration_s(path: Path) -> float:
    """Return how much of a recording :func:`read_recording` reads, in seconds, with its errors."""
    return min(float(LONGEST_S), whole_s(path))


def whole_s(path: Path) -> float:
    """Return how long a recording is, in seconds, with the errors of :func:`read_recording`."""
    soundfile = _soundfile()
    try:
        with soundfile.SoundFile(_with_sizes(path)) as file:
            _rate_of(file, path)
            size = _BLOCK // file.channels
            frames = sum(map(len, blocks(file, size))) if file.frames == _UNKNOWN_FRAMES else file.frames
            return float(frames / file.samplerate)
    except (soundfile.SoundFileError, OSError) as error:
        raise _unreadable(path, error) from error


def _soundfile() -> ModuleType:
    try:
        return importlib.import_module("soundfile")
    except (ImportError, OSError) as error:
        raise AudioError(
            f"cannot read audio files, because soundfile cannot be loaded ({error}): install auricle[edge], "
            "on a 32-bit Pi the system's python3-soundfile"
        ) from error


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise RecordingError(
            f"cannot list {folder}: {error.strerror}; recordings are expected as <label>/*{FORMATS}"
        ) from error


def is_unicode(name: str) -> bool:
    """Return whether a file's name, as Python has it, is text; what a zip of another system left may be none."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def is_recording(path: Path | os.DirEntry[str]) -> bool:
    """Return whether something is a regular file, or a link to one, with a recording's name; none is opened."""
    return _is_called_so(path.name) and _is_regular(path)


def _is_called_so(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith(tuple(SUFFIXES))


def _is_regular(path: Path | os.DirEntry[str]) -> bool:
    try:
        return path.is_file()
    except OSError:  # a link that leads to itself
        return False


def odd_ones(entries: Iterable[Path | os.DirEntry[str]]) -> Iterator[tuple[Path, str]]:
    """Yield what is called like a recording and cannot be used, as a link to nothing or a pipe, and why."""
    for entry in entries:
        if _is_called_so(entry.name) and not is_recording(entry) and not Path(entry).is_dir():
            yield Path(entry), f"{os.fspath(entry)!a}: it is no regular file"
