"""Of the status that the daemon writes, what shows others whether it does its work: Home Assistant, by MQTT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edge_client.events import Health

# A microphone that gives nothing for so long, s, is opened anew; until then it counts as heard.
_SILENT_S = 15.0
# A daemon that has just started opens its microphone.
_STARTING_S = 60.0


def health_of(status: dict[str, Any], now: float) -> Health:
    """Return how a device is.

    Args:
        status: as the daemon writes it.
        now: seconds since 1970.
    """
    listening = status["listening"]
    hears = bool(listening and listening["frames"] and listening["last_frame_age_s"] < _SILENT_S)
    lent = bool(listening and listening["lent"])
    problems = list(_problems(status, hears=hears))
    if not hears and not lent and not problems and now - status["started"] > _STARTING_S:
        problems = ["the microphone gives no sound"]
    errors = [f"{name}: {loop['error']}" for name, loop in status["loops"].items() if loop["error"]]
    errors += [part["error"] for name in ("training", "teaching", "server") if (part := status[name]) and part["error"]]
    return Health(
        listening=hears and not lent,
        problem=problems[0] if problems else "",
        error=errors[0] if errors else "",
        started=status["started"],
        versions=status["versions"],
    )


def _problems(status: dict[str, Any], *, hears: bool) -> Iterator[str]:
    for name, loop in status["loops"].items():
        # A microphone that is tried again is still missing.
        if loop["state"] == "waiting" or (name == "listening" and loop["error"] and not hears):
            yield f"{name} failed: {loop['error']}"
        elif loop["stuck"]:
            yield f"{name} makes no progress"
    if status["damage"]:
        yield f"damaged files were found: {status['damage'][-1]}"
