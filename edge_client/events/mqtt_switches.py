"""Switches on MQTT, of the device and of its labels: what is published of them, and what a command looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge_client.capture.pauses import Pause, seconds_of
from edge_client.errors import ConfigError
from edge_client.events import Switch, iso

PAUSE, SET = "pause", "/set"
"""Topic behind the device's own that says whether it is paused, retained; and what is behind such a topic's command."""
COMMANDS = (f"{PAUSE}{SET}", f"label/+/listen{SET}")
"""Topics behind the device's own on which commands come."""
_LARGEST_BYTES = 64
_STATES = {b"ON": True, b"OFF": False}


def shown(pause: Pause | None) -> dict[str, Any]:
    """Return what is published of a pause, or of none, JSON-ready."""
    if pause is None:
        return {"paused": "OFF", "since": None, "until": None, "by": None}
    since, until = (None if moment is None else iso(moment) for moment in (pause.since, pause.until))
    return {"paused": "ON", "since": since, "until": until, "by": pause.by}


def listen_topic(key: str) -> str:
    """Return the topic behind the device's own that says whether a label of a key is listened for, retained."""
    return f"label/{key}/listen"


def switch_of(topic: str, payload: bytes, keys: Mapping[str, str]) -> Switch:
    """Return what a command says: ``ON``, ``OFF``, or for how long to pause, such as ``30m``.

    ``topic``: behind the device's own; ``keys``: of labels. Raises ConfigError if it is none.
    """
    labels = {f"{listen_topic(key)}{SET}": label for label, key in keys.items()}
    if topic != COMMANDS[0] and topic not in labels:
        raise ConfigError(f"no label has the topic {topic[:100]!r}")
    given = payload[: _LARGEST_BYTES + 1].strip()
    if given in _STATES:
        return Switch(_STATES[given], labels.get(topic, ""))
    if topic in labels:
        raise ConfigError(f"a command for a label is ON or OFF, not {given[:40]!r}")
    try:
        return Switch(on=True, for_s=seconds_of(given.decode(errors="replace")))
    except ConfigError as error:
        raise ConfigError(f"a command for the pause is ON, OFF or a time; {error}") from error
