"""Hands what was heard to every sink, and its sound to whoever keeps it for the owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge_client.events import Announcing, Health, Heard, Reporting, Sink
from edge_client.events.delivery import Delivery

# Sounds that may wait for the disk, 64 kB each.
_MAX_WAITING = 16
_GRACE_S = 2.0


class Publisher:
    """The one receiver of a listening loop; it never waits for a sink or a disk."""

    def __init__(self, sinks: Sequence[Sink], keep: Callable[[Heard], None] | None = None) -> None:
        """Take the sinks over.

        Args:
            sinks: Receivers of every event; :meth:`close` closes them.
            keep: Stores the sound, where the owner wants it; called in a thread of its own.
        """
        self._sinks = tuple(sinks)
        self._kept = Delivery("the store of heard sounds", keep, _MAX_WAITING) if keep else None

    def publish(self, heard: Heard) -> None:
        """Hand on what was heard."""
        for sink in self._sinks:
            sink.publish(heard.event)
        if self._kept is not None:
            self._kept.put(heard)

    def announce(self, labels: Sequence[str]) -> None:
        """Say which labels the device knows from now on."""
        for sink in self._sinks:
            if isinstance(sink, Announcing):
                sink.announce(labels)

    def report(self, health: Health) -> None:
        """Say how the device is."""
        for sink in self._sinks:
            if isinstance(sink, Reporting):
                sink.report(health)

    def close(self) -> None:
        """Finish what was taken, within a few seconds."""
        if self._kept is not None:
            self._kept.close(_GRACE_S)
        for sink in self._sinks:
            sink.close()
