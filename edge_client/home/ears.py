"""What an ear of a home hears, and how far it stands out of the ear's background."""

from __future__ import annotations

import math
from collections import defaultdict, deque

import numpy as np

from edge_client.events import Event, Sink
from edge_client.home.line import HomeLine

# Digital silence is no quieter than this: else an input that gives some would seem the best ear.
_LOWEST_DB = -100.0
# Half a minute of steps of so many seconds, and which share of them is quieter than the background.
_STEPS, _STEP_S, _QUIETER = 120, 0.25, 0.2


class Background:
    """The levels of one input."""

    def __init__(self) -> None:
        self._levels_db: deque[float] = deque(maxlen=_STEPS)
        self._energy = self._seconds = 0.0

    def take(self, level_db: float, seconds: float) -> None:
        """Take the level, dB full scale, of so many seconds."""
        self._energy += seconds * 10.0 ** (max(level_db, _LOWEST_DB) / 10.0)
        self._seconds += seconds
        if self._seconds >= _STEP_S:
            self._levels_db.append(10.0 * math.log10(self._energy / self._seconds))
            self._energy = self._seconds = 0.0

    def snr_db(self, level_db: float) -> float:
        """Return how far a level, dB full scale, is above the background, dB; 0 before any level was taken."""
        if not self._levels_db:
            return 0.0
        return max(level_db, _LOWEST_DB) - float(np.quantile(self._levels_db, _QUIETER))


class HomeSink(Sink):
    """Sends detections with their signal-to-noise ratio."""

    def __init__(self, line: HomeLine) -> None:
        self.line = line
        self._backgrounds: defaultdict[str, Background] = defaultdict(Background)

    def level(self, heard_by: str, level_db: float, seconds: float) -> None:
        """Take the level of an input for its background."""
        self._backgrounds[heard_by].take(level_db, seconds)

    def publish(self, event: Event) -> None:
        """Tell what was detected; sounds without a name are nobody else's."""
        if event.kind == "detected":
            self.line.say("event", event, event.input, self._backgrounds[event.input].snr_db(event.level_db))

    def close(self) -> None:
        """Leave the home."""
        self.line.close()
