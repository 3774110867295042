"""Unknown sounds that were heard lately, kept on the disk until their owner names them or newer ones take their place.

Where the owner wants it, sounds that were detected are kept in the same way, for him to confirm or correct.

One file each, in the clip store's own format, so that naming one is a move. Its name holds all that is known of it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edge_client.audio.recordings import content_name, encode_wave
from edge_client.config.sections import ClipsConfig
from edge_client.errors import ClipError
from edge_client.storage.ages import DAY_S, age_s
from edge_client.storage.database import FILE, Database
from edge_client.storage.owner_choices import OwnerChoices
from fleet_protocol.ground.atomic_files import leftovers, remove_durably, write_durably
from fleet_protocol.numbers.arrays import Floats

_NAME = re.compile(r"(\d{8,})-(\d{13,})-(\d{4})-([0-9a-f]{8})\.wav")
# Detected sounds that are kept where the owner switched that on and the configuration names no number.
_SWITCHED_ON = 50


@dataclass(frozen=True)
class UnknownClip:
    """A sound that was heard, s since 1970. ``score``: its label's, or the best, 0..1; ``number``: of its arrival."""

    number: int
    path: Path
    clip_id: str
    heard_at: float
    score: float


class UnknownClips:
    """A folder of unknown sounds: one process adds, others list, name and remove. ``days``: age at which they go."""

    def __init__(self, folder: Path, config: ClipsConfig, sample_rate_hz: int) -> None:
        self.folder = folder
        self._unknown_count, self.days = config.unknown_count, config.unknown_days
        self._rate_hz = sample_rate_hz

    @property
    def count(self) -> int:
        """How many are kept."""
        return self._unknown_count

    def add(self, heard_at: float, score: float, window: Floats) -> None:
        """Keep float32 [samples] by time, s since 1970, and best score, 0..1; the oldest go if there are too many."""
        if not self.count:
            return
        data = encode_wave(window, self._rate_hz)
        milliseconds, thousandths = _milliseconds(heard_at), round(1e3 * min(1.0, max(0.0, score)))
        number = max((sound.number for sound in self.sounds()), default=0) + 1
        name = f"{number:08d}-{milliseconds:013d}-{thousandths:04d}-{content_name(data, 8)}"
        write_durably(self.folder / name, data)
        self.tidy()

    def tidy(self, now: float | None = None) -> None:
        """Remove what is too old or too much, and what a power cut left; for the process that adds."""
        if not self.folder.is_dir():
            return
        now = time.time() if now is None else now
        sounds = self.sounds()
        for sound in sounds[self.count :]:
            sound.path.unlink(missing_ok=True)
        for sound in sounds[: self.count]:
            with contextlib.suppress(FileNotFoundError):  # it was named meanwhile
                if age_s(sound.path, now, sound.heard_at) > self.days * DAY_S:
                    sound.path.unlink()
        for path in leftovers(self.folder):
            path.unlink()

    def sounds(self) -> list[UnknownClip]:
        """Return what there is, the newest first."""
        found = [
            UnknownClip(int(match[1]), path, match[4], int(match[2]) / 1e3, int(match[3]) / 1e3)
            for path in (self.folder.iterdir() if self.folder.is_dir() else ())
            if (match := _NAME.fullmatch(path.name))
        ]
        return sorted(found, key=lambda sound: -sound.number)

    def would_keep(self, name: str) -> bool:
        """Return whether a sound of this file name would be kept now: not too old, nor older than all that there is."""
        match = _NAME.fullmatch(name)
        if match is None or abs(time.time() - int(match[2]) / 1e3) > self.days * DAY_S:
            return False
        return sum(sound.number > int(match[1]) for sound in self.sounds()) < self.count

    def heard_at(self, moment: float) -> UnknownClip | None:
        """Return the sound of an event by its time, seconds since 1970; None where it is not kept."""
        wanted = _milliseconds(moment)
        return next((sound for sound in self.sounds() if _milliseconds(sound.heard_at) == wanted), None)

    def forget(self, moments: Iterable[float]) -> None:
        """Remove the sounds of events by their times, seconds since 1970."""
        gone = {_milliseconds(moment) for moment in moments}
        for sound in self.sounds():
            if _milliseconds(sound.heard_at) in gone:
                remove_durably(sound.path)

    def find(self, given: str) -> UnknownClip:
        """Return the sound whose identifier begins like this, case ignored. Raises ClipError if none or several do."""
        found = [sound for sound in self.sounds() if given and sound.clip_id.startswith(given.lower())]
        if not found:
            raise ClipError(f"no unknown sound is called {given!r} (any more); `auricle-edge label` lists them")
        if len({sound.clip_id for sound in found}) > 1:
            names = ", ".join(sound.clip_id for sound in found[:5])
            raise ClipError(f"{given!r} may be any of {names}; give more of its identifier")
        return found[0]


class DetectedClips(UnknownClips):
    """A folder of sounds that were detected; by default none are kept."""

    def __init__(self, folder: Path, config: ClipsConfig, sample_rate_hz: int) -> None:
        super().__init__(folder, config, sample_rate_hz)
        self._choices = OwnerChoices(Database(folder.with_name(FILE)))
        self._configured, self.days = config.detected_count, config.detected_days

    @property
    def count(self) -> int:
        """How many are kept: as the configuration says, unless the owner switched it on or off since."""
        wanted = self._choices.keeps_detected()
        if wanted is None:
            return self._configured
        return self.switched_on if wanted else 0

    @property
    def switched_on(self) -> int:
        """How many are kept where the owner wants it."""
        return self._configured or _SWITCHED_ON

    def switch(self, *, on: bool) -> None:
        """Keep detected sounds from now on, or delete those that there are. Raises as :class:`Database` does."""
        self._choices.keep_detected(on=on)
        self.tidy()


def _milliseconds(moment: float) -> int:
    return max(0, round(1e3 * moment))
