"""What the device heard, and where the news of it goes: the journal, standard output, a program, an MQTT broker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from edge_client.config import Config

JOURNAL = "journal.sqlite3"


@dataclass(frozen=True)
class Event:
    """A sound that was heard.

    Attributes:
        time: when, in seconds since 1970, UTC.
        kind: whether the sound is one that the device knows.
        label: the owner's name for it; ``unknown`` for an unknown sound.
        class_id: the fleet's class of the label, where the fleet knows it.
        score: averaged score of the label, or the best one that an unknown sound reached, 0..1.
        level_db: root mean square of the window, dB full scale.
    """

    time: float
    kind: Literal["detected", "unknown"]
    label: str
    class_id: str | None
    score: float
    level_db: float

    def to_json(self) -> dict[str, str | float | None]:
        """Return the event JSON-ready, its time in ISO 8601."""
        moment = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds")
        return {
            "time": moment.replace("+00:00", "Z"),
            "kind": self.kind,
            "label": self.label,
            "class_id": self.class_id,
            "score": round(self.score, 4),
            "level_db": round(self.level_db, 1),
        }


class Sink(Protocol):
    """Where events go."""

    def publish(self, event: Event) -> None:
        """Take an event without waiting; trouble outside is logged, never raised."""

    def close(self) -> None:
        """Bring what was taken to its end, for a few seconds at most."""


@runtime_checkable
class Announcing(Protocol):
    """A sink that tells the world beforehand which labels there are."""

    def announce(self, labels: Sequence[str]) -> None:
        """Say which labels the device knows from now on."""


def open_sinks(config: Config, device_id: str) -> list[Sink]:
    """Open the journal and every sink that the configuration names.

    Raises:
        ConfigError: ``[mqtt]`` is configured, but its library is not installed.
        OSError: the journal's folder cannot be written.
    """
    from edge_client.events.command import CommandHook
    from edge_client.events.journal import Journal
    from edge_client.events.json_lines import JsonLines
    from edge_client.events.mqtt import MqttSink

    events = config.events
    journal = config.device.state / JOURNAL
    sinks: list[Sink] = [Journal(journal, days=events.journal_days, megabytes=events.journal_mb)]
    if events.stdout:
        sinks.append(JsonLines(sys.stdout))
    if events.command:
        sinks.append(CommandHook(events.command, events.command_timeout_s))
    if config.mqtt is not None:
        sinks.append(MqttSink(config.mqtt, device_id, config.device.name))
    return sinks
