"""Whether the device is paused: by its owner, for a time or until he ends it, or by the hours in which it listens.

A time that was asked for is measured by the clock that runs since the machine started, which nobody sets. After another
start the time of the day has to do; where it cannot be right, the time begins anew (``edge_client.storage.ages``).

``daemon/pause_watch.py`` closes the daemon's inputs in a pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from edge_client.config.hours import Hours
from edge_client.errors import ConfigError, PausedError
from edge_client.storage.ages import DAY_S, FIRST_CLOCK_S, is_likely
from edge_client.storage.database import Database
from fleet_protocol.ground.command_line import span_s

_NOTE = "pause"
LONGEST_S = 30 * DAY_S
"""Of a pause that ends by itself."""
By = Literal["command", "page", "Home Assistant"]
"""What paused it."""
HOURS = "hours"
# What a time of 1970 says of the hours: nothing.
_UNKNOWN = 0.0


@dataclass(frozen=True)
class Pause:
    """Why the device does not listen now.

    Attributes:
        by: What paused it, one of :data:`By`, or :data:`HOURS`.
        since: Seconds since 1970; None of hours.
        until: When it ends by itself, seconds since 1970; None: it does not, or the clock is not set yet.
    """

    by: str
    since: float | None = None
    until: float | None = None

    @property
    def words(self) -> str:
        """What an owner reads of it, behind "paused"."""
        if self.by == HOURS:
            if self.until is None:
                return "by its hours, until it knows the time"
            return f"until {clock(self.until)} by its hours"
        until = "" if self.until is None else f" until {clock(self.until)}"
        return f"since {clock(self.since or 0.0)}{until} by {_NAMES[self.by]}"

    def to_json(self) -> dict[str, Any]:
        """Return it JSON-ready, with its words."""
        return asdict(self) | {"words": self.words}


_NAMES = {"command": "a command", "page": "the owner's page", "Home Assistant": "Home Assistant"}
assert set(_NAMES) == set(get_args(By))


def clock(moment: float) -> str:
    """Return a time, s since 1970, by the local clock, with its day where that is not today."""
    then = datetime.fromtimestamp(moment)
    return then.strftime("%H:%M" if then.date() == datetime.now().date() else "%d %b %H:%M")


def seconds_of(given: str) -> float:
    """Return the seconds of a pause such as ``30m``. Raises ConfigError if it is none, or too long."""
    found = span_s(given)
    if found is None or not 0 < found <= LONGEST_S:
        raise ConfigError(
            f"{given[:40]!r} is no time of a pause: write it like 90s, 30m, 8h or 2d, at most "
            f"{LONGEST_S / DAY_S:.0f}d; without one, the pause lasts until it is ended"
        )
    return found


def since_start() -> tuple[str, float]:
    """Return which start of the machine this is, and how long ago it was, s; the latter nobody sets."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return boot, time.clock_gettime(time.CLOCK_BOOTTIME)


class Pauses:
    """A device's pauses; any number of processes. All raise StateError, OSError as :class:`Database` does."""

    def __init__(
        self,
        database: Database,
        hours: Hours,
        now: Callable[[], float] = time.time,
        since_start: Callable[[], tuple[str, float]] = since_start,
    ) -> None:
        """Use a device's database; ``hours``: in which it listens. ``now``: seconds since 1970."""
        self._database, self._hours = database, hours
        self._now, self._since_start = now, since_start

    def current(self) -> Pause | None:
        """Return why the device does not listen now; None: it does."""
        note, now = self._note(), self._now()
        if "since" in note:
            elapsed, for_s = self._elapsed(note), note["for_s"]
            if for_s is None or elapsed < for_s:
                since = now - elapsed
                return Pause(note["by"], since, None if for_s is None else since + for_s)
        closed = self._by_hours()
        return None if closed is not None and note.get("open_until") == self._closed_until() else closed

    def require_awake(self) -> None:
        """Raise PausedError where the device does not listen."""
        if (pause := self.current()) is not None:
            raise PausedError(f"the device is paused {pause.words}, and records nothing: auricle-edge resume")

    def pause(self, by: By, for_s: float | None = None) -> None:
        """Listen no more, for some seconds, of :func:`seconds_of`, or until :meth:`resume`."""
        boot, at = self._since_start()
        note = {"by": by, "since": self._now(), "for_s": for_s, "boot": boot, "at": at}
        self._database.set_note(_NOTE, note)

    def resume(self) -> None:
        """Listen again, within closed hours until these end."""
        closed = self._by_hours() is not None
        self._database.set_note(_NOTE, {"open_until": self._closed_until()} if closed else None)

    def settle(self) -> None:
        """Measure a pause from an earlier start of the machine by this one's clock; for the daemon that starts."""
        note, (boot, at) = self._note(), self._since_start()
        if "since" in note and note["boot"] != boot:
            self._database.set_note(_NOTE, note | {"boot": boot, "at": at - self._elapsed(note)})

    def _note(self) -> dict[str, Any]:
        return dict(self._database.note(_NOTE) or {})

    def _elapsed(self, note: dict[str, Any]) -> float:
        """Return for how long it is paused, s."""
        (boot, at), now, since = self._since_start(), self._now(), note["since"]
        if boot and boot == note["boot"]:
            return max(0.0, at - float(note["at"]))
        return max(0.0, now - since) if is_likely(since, now) else 0.0

    def _by_hours(self) -> Pause | None:
        now = self._now()
        if not self._hours.spans or (now >= FIRST_CLOCK_S and self._hours.include(now)):
            return None
        return Pause(HOURS, until=self._closed_until() or None)

    def _closed_until(self) -> float | None:
        """Return when the hours that are closed end, s since 1970; 0 where the clock is not set yet."""
        now = self._now()
        return self._hours.next_change(now) if now >= FIRST_CLOCK_S else _UNKNOWN
