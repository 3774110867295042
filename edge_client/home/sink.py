"""Tells the home what this device's inputs detect."""

from __future__ import annotations

from collections import defaultdict

from edge_client.events import Event, Sink
from edge_client.home.background import Background
from edge_client.home.line import HomeLine


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
