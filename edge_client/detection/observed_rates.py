"""What a device promised, and what came: how long it listened, what it heard, and what of it the owner calls wrong.

Of a room are counted, beside that, how often the labels' scores were reached (edge_client/detection/room_tails.py).
"""

from __future__ import annotations

import calendar
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edge_client.config import Config
from edge_client.detection.detector import Loaded
from edge_client.detection.room_tails import Blocks, Reached
from edge_client.detection.thresholds import Tail
from edge_client.errors import StateError
from edge_client.logs import RateLimitedLog
from edge_client.storage.database import Database
from edge_client.storage.owner_choices import forget_wrong_detections, read_wrong_detections
from fleet_protocol.bundle.bundle_file import Manifest

log = logging.getLogger(__name__)

DAYS = 7
"""Days of which it is known how long was listened and what was heard, today the last."""
_NOTE = "observed_rates"
# Time between two savings: what a power cut may cost, and after which thresholds may be others, s.
_SAVE_S = 3600.0


@dataclass
class Counts:
    """What was counted with a front end of some settings, whose digest is ``features``.

    Attributes:
        heard_s: Seconds that were loud enough to be classified, by local day since 1970.
        detections: Number of detections by day and label.
        reached: By label how often its scores were reached.
    """

    features: str
    heard_s: dict[int, float] = field(default_factory=dict)
    detections: dict[tuple[int, str], int] = field(default_factory=dict)
    reached: dict[str, Reached] = field(default_factory=dict)

    def forget_old(self, now: float) -> None:
        """Leave the last days alone, without what a clock that was ahead counted."""
        self.heard_s = {day: seconds for day, seconds in self.heard_s.items() if _is_late(day, now)}
        self.detections = {key: count for key, count in self.detections.items() if _is_late(key[0], now)}

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`read` reads."""
        return {
            "features": self.features,
            "heard_s": list(self.heard_s.items()),
            "detections": [[day, label, count] for (day, label), count in self.detections.items()],
            "reached": {label: one.to_json() for label, one in self.reached.items()},
        }

    @classmethod
    def read(cls, database: Database, features: str) -> Counts | None:
        """Return what was noted; None where nothing was. Raises StateError, OSError as :class:`Database`."""
        note = database.note(_NOTE)
        if note is None:
            return None
        try:
            detections = {(day, label): count for day, label, count in note["detections"]}
            same = note["features"] == features
            reached = {label: Reached.of_json(one) for label, one in note["reached"].items()} if same else {}
            return cls(features, dict(note["heard_s"]), detections, reached)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):  # another release wrote it in another way
            return None


class ObservedRates:
    """A daemon's counts; what :meth:`listener` returns for threads that listen, everything else for the main one."""

    def __init__(self, database: Database, features: str, clock: Callable[[], float] = time.time) -> None:
        """Go on with what was saved with a front end of the same ``features``, a digest."""
        self._database, self._features, self._clock = database, features, clock
        self._lock = threading.Lock()
        self._trouble = RateLimitedLog(log)
        kept = None
        try:
            kept = Counts.read(database, features)
        except (StateError, OSError) as error:  # it begins anew
            self._trouble.warning("cannot read what was counted of this room: %s", error)
        self._counts, self._noted = kept or Counts(features), kept is not None
        self._saved = time.monotonic()
        self._seen: object = None
        self._wrong: list[tuple[float, str]] = []
        self._changed = False
        self._follow_database()
        self._changed = False

    @classmethod
    def open(cls, config: Config, database: Database, manifest: Manifest) -> ObservedRates | None:
        """Return it; None where nothing is to be counted, or promised. What is kept is removed where it is off."""
        if not config.learning.room:
            try:
                forget_rates(database)
            except (StateError, OSError) as error:  # as on a full disk; it is tried again at the next start
                log.warning("cannot remove what was counted of this room: %s", error)
            return None
        if config.microphone is None or manifest.embedding_statistics is None:
            return None
        return cls(database, manifest.feature_settings.digest)

    def listener(self, loaded: Loaded) -> Blocks:
        """Return what takes the scores of a model. Labels that are gone are forgotten."""
        with self._lock:
            if loaded.tails:  # a round leaves none, until the clips are learned again
                self._counts.reached = {
                    label: one for label, one in self._counts.reached.items() if label in loaded.tails
                }
        return Blocks(loaded.tails, loaded.label_map.names, self._add, self._count)

    def _add(self, seconds: float, highest: Mapping[str, float], detected: Sequence[str]) -> None:
        """Take a block; see :class:`Blocks`."""
        now = self._clock()
        day = _day(now)
        with self._lock:
            counts = self._counts
            counts.heard_s[day] = counts.heard_s.get(day, 0.0) + seconds
            for label, steps in highest.items():
                one = counts.reached.setdefault(label, Reached())
                one.add(seconds / 3600, steps, now if label in detected else None)

    def _count(self, label: str) -> None:
        day = _day(self._clock())
        with self._lock:
            self._counts.detections[day, label] = self._counts.detections.get((day, label), 0) + 1

    def follow(self) -> bool:
        """Save where it is time, and forget all where the owner wants that; return whether thresholds may be others.

        They are once an hour, and when the owner says that a detection was wrong, or takes that back.
        """
        self._follow_database()
        if not self._changed and time.monotonic() - self._saved < _SAVE_S:
            return False
        self.save()
        self._changed = False
        return True

    def _follow_database(self) -> None:
        """Read again what others write, where the file changed."""
        key = self._database.key()
        if key == self._seen:
            return
        try:
            wrong = read_wrong_detections(self._database)
            gone = self._noted and not self._database.rows("SELECT 1 FROM notes WHERE name = ?", (_NOTE,))
        except (StateError, OSError) as error:
            self._trouble.warning("cannot read what the owner says of this room: %s", error)
            return
        if gone:
            self._noted = False
            with self._lock:
                self._counts = Counts(self._features)
            log.info("forgot what was counted of this room")
        self._changed |= gone or wrong != self._wrong
        self._wrong, self._seen = wrong, key

    def save(self) -> None:
        """Keep what was counted; a full disk is logged, and what is in memory stays."""
        self._saved = time.monotonic()
        self._follow_database()  # the owner may just have removed it
        with self._lock:
            self._counts.forget_old(self._clock())
            note = self._counts.to_json()
        try:
            self._database.set_note(_NOTE, note, durable=False)
            self._noted = True
        except (StateError, OSError) as error:
            self._trouble.warning("cannot keep what was counted of this room: %s", error)

    def status(self, promised: float) -> dict[str, Any]:
        """Return the status's ``room``, with for each label that was detected the ``detections`` of the last days, and
        of them those that the owner said were ``wrong``.
        """
        now, labels = self._clock(), dict[str, dict[str, int]]()
        with self._lock:
            self._counts.forget_old(now)
            seconds = sum(self._counts.heard_s.values())
            for (_, label), count in self._counts.detections.items():
                labels.setdefault(label, {"detections": 0, "wrong": 0})["detections"] += count
        denied = Counter(label for moment, label in self._wrong if _is_late(_day(moment), now))
        for label, one in labels.items():
            one["wrong"] = min(denied[label], one["detections"])
        return {"promised_per_hour": promised, "hours": round(seconds / 3600, 2), "days": DAYS, "labels": labels}


def tails_here(database: Database, features: str, tails: Mapping[str, Tail]) -> dict[str, Tail]:
    """Return labels' tails for this room, as far as it is known. Raises StateError, OSError as :class:`Database`."""
    counts, found = Counts.read(database, features) if tails else None, dict(tails)
    if counts is not None:
        denied = read_wrong_detections(database)
        for label in counts.reached.keys() & tails.keys():
            moments = [moment for moment, name in denied if name == label]
            found[label] = counts.reached[label].tail(tails[label], moments)
    return found


def forget_rates(database: Database) -> None:
    """Forget what was counted and called wrong; a daemon that runs follows. Raises as :class:`Database`."""
    if database.path.exists():
        database.set_note(_NOTE, None)
        forget_wrong_detections(database)
        database.erase()


def _is_late(day: int, now: float) -> bool:
    return 0 <= _day(now) - day < DAYS


def _day(moment: float) -> int:
    """Return the local day since 1970 of seconds since 1970."""
    return calendar.timegm(time.localtime(moment)) // 86_400


def rate_sentences(room: Mapping[str, Any]) -> list[str]:
    """Return what a person reads of the status's ``room``: what was promised, and for each label what came."""
    promised, hours = room["promised_per_hour"], room["hours"]
    unit = "false alarm" if promised == 1 else "false alarms"
    heard = "less than an hour" if hours < 1 else "1 hour" if hours < 1.5 else f"{hours:.0f} hours"
    found = [
        f"each sound may give {promised:g} {unit} an hour; this device listened for {heard} in the last "
        f"{room['days']} days"
    ]
    for label, counts in sorted(room["labels"].items()):
        detections, wrong = counts["detections"], counts["wrong"]
        rate = f", {wrong / hours:.1f} an hour" if wrong and hours >= 1 else ""
        times = "once" if detections == 1 else f"{detections} times"
        found.append(f"{label}: heard {times}; you called {wrong or 'none'} of them wrong{rate}")
    return found


def rate_lines(room: Mapping[str, Any]) -> list[str]:
    """Return these sentences as lines of `auricle-edge status`."""
    first, *labels = rate_sentences(room)
    return [f"room      {first}", *(f"          {line}" for line in labels)]
