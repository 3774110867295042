"""Hands what was heard to every sink, and the sound of unknown events to the store of unknown clips."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge_client.events import Announcing, Heard, Sink
from edge_client.events.delivery import Delivery

# Unknown sounds that may wait for the disk, 64 kB each.
_MAX_WAITING = 16
_GRACE_S = 2.0


class Publisher:
    """The one receiver of a listening loop; it never waits for a sink or a disk."""

    def __init__(self, sinks: Sequence[Sink], keep_unknown: Callable[[Heard], None] | None = None) -> None:
        """Take the sinks over.

        Args:
            sinks: Receivers of every event; :meth:`close` closes them.
            keep_unknown: Stores an unknown sound; called in a thread of its own.
        """
        self._sinks = tuple(sinks)
        self._unknown = Delivery("the store of unknown clips", keep_unknown, _MAX_WAITING) if keep_unknown else None

    def publish(self, heard: Heard) -> None:
        """Hand on what was heard."""
        for sink in self._sinks:
            sink.publish(heard.event)
        if heard.window is not None and self._unknown is not None:
            self._unknown.put(heard)

    def announce(self, labels: Sequence[str]) -> None:
        """Say which labels the device knows from now on."""
        for sink in self._sinks:
            if isinstance(sink, Announcing):
                sink.announce(labels)

    def close(self) -> None:
        """Finish what was taken, within a few seconds."""
        if self._unknown is not None:
            self._unknown.close(_GRACE_S)
        for sink in self._sinks:
            sink.close()
