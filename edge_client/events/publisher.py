"""Opens the sinks, and hands each what was heard."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from edge_client.config import Config
from edge_client.events import Heard, Sink, Switch
from edge_client.events.delivery import Delivery
from edge_client.events.journal import Journal
from edge_client.events.json_lines import JsonLines
from edge_client.events.mqtt import MqttSink
from edge_client.pauses import Pause
from edge_client.storage.database import FILE, Database

# Sounds that may wait for the disk, 64 kB a second.
_MAX_WAITING = 16
_GRACE_S = 2.0


def open_sinks(
    config: Config,
    device_id: str,
    answer: Callable[[str, str, str], None] | None = None,
    switch: Callable[[Switch], Pause | None] | None = None,
) -> list[Sink]:
    """Open every sink for which the configuration asks. Raises ConfigError if a sink's library is not installed.

    ``answer`` takes what ``mqtt_commands.reply_of`` returns; it may wait for the disk, and raises EdgeError where it
    cannot be taken. None: nothing is asked. ``switch`` takes in the same way what is switched from outside, and returns
    how it is then.
    """
    events, device = config.events, config.device
    sinks: list[Sink] = [Journal(Database(device.state / FILE), events.journal_days, events.journal_mb)]
    if events.stdout:
        sinks.append(JsonLines(sys.stdout))
    if config.mqtt is not None:
        sinks.append(MqttSink(config.mqtt, device_id, device.name, device.state, answer, config.ui.address, switch))
    return sinks


class Publisher:
    """The one receiver of what a device hears; it never waits for a sink or a disk. ``sinks``: it hands on to these."""

    def __init__(self, sinks: Sequence[Sink], keep: Callable[[Heard], None] | None = None) -> None:
        """Take the sinks over; :meth:`close` closes them. ``keep`` stores a sound, in a thread of its own."""
        self.sinks = tuple(sinks)
        self._kept = Delivery("the store of heard sounds", keep, _MAX_WAITING) if keep else None

    def publish(self, heard: Heard) -> None:
        """Hand on what was heard."""
        for sink in self.sinks:
            sink.publish(heard.event)
        if self._kept is not None:
            self._kept.put(heard)

    def stored(self) -> dict[str, Any] | None:
        """Say how the storing of events goes, as :meth:`Sink.stored`; None where nothing stores them."""
        return next((stored for sink in self.sinks if (stored := sink.stored()) is not None), None)

    def trouble(self) -> str | None:
        """Say why what gets the events is not reached, "" where it is; None where nothing sends them on."""
        said = [trouble for sink in self.sinks if (trouble := sink.trouble()) is not None]
        return "; ".join(filter(None, said)) if said else None

    def close(self) -> None:
        """Finish what was taken, within a few seconds."""
        if self._kept is not None:
            self._kept.close(_GRACE_S)
        for sink in self.sinks:
            sink.close()
