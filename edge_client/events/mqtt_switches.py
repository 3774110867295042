"""Switches on MQTT: what is published of a pause, and what a command that switches looks like."""

from __future__ import annotations

from typing import Any

from edge_client.errors import ConfigError
from edge_client.events import Switch, iso
from edge_client.storage.pauses import Pause, seconds_of

PAUSE, SET_PAUSE = "pause", "pause/set"
"""Topics behind the device's own: whether it is paused, retained; and the command."""
_LARGEST_BYTES = 64
_STATES = {b"ON": True, b"OFF": False}


def shown(pause: Pause | None) -> dict[str, Any]:
    """Return what is published of a pause, or of none, JSON-ready."""
    if pause is None:
        return {"paused": "OFF", "since": None, "until": None, "by": None}
    since, until = (None if moment is None else iso(moment) for moment in (pause.since, pause.until))
    return {"paused": "ON", "since": since, "until": until, "by": pause.by}


def switch_of(payload: bytes) -> Switch:
    """Return what a command says: ``ON``, ``OFF``, or for how long to pause, such as ``30m``.

    Raises ConfigError if it is none.
    """
    given = payload[: _LARGEST_BYTES + 1].strip()
    if given in _STATES:
        return Switch(_STATES[given])
    try:
        return Switch(on=True, for_s=seconds_of(given.decode(errors="replace")))
    except ConfigError as error:
        raise ConfigError(f"a command for the pause is ON, OFF or a time; {error}") from error
