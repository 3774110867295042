"""Which devices are away, so that whoever follows a round does not wait for them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any

from aggregator_server.client import Client

AWAY_S = 120.0
"""Time after which a device that was not heard of is away, s. A device asks for work at least every minute, and the
server writes down half a minute later when it was heard of."""
# Of a device that uploaded: a small board may train on the result for long, and asks for nothing meanwhile.
_LONGEST_SILENCE_S = 900.0


def awaited(client: Client, detail: Mapping[str, Any], now: datetime) -> bool:
    """Tell whether a device that is there has yet to apply the result of a round that is done.

    Args:
        client: speaks to the server.
        detail: the round, as the server describes it.
        now: a time with a zone.
    """
    missing = [item for item in detail["participants"] if not item["learned"]]
    if not missing:
        return False
    silences = {info["device_id"]: _silence_s(info, now) for info in client.get("/v1/devices")}
    return any(
        silences.get(item["device_id"], inf) <= (AWAY_S if item["upload"] is None else _LONGEST_SILENCE_S)
        for item in missing
    )


def print_left_out(client: Client, round_id: int) -> None:
    """Say on standard error which devices a round that was just opened leaves out, because they are away."""
    taken = {item["device_id"] for item in client.get(f"/v1/rounds/{round_id}")["participants"]}
    _print([info for info in client.get("/v1/devices") if info["device_id"] not in taken], "is left out")


def print_not_awaited(client: Client, detail: Mapping[str, Any]) -> None:
    """Say on standard error which devices of a round have not applied its result, because they are away."""
    from aggregator_server.store.tables import DONE

    missing = {item["device_id"] for item in detail["participants"] if not item["learned"]}
    if missing and detail["summary"]["state"] == DONE:
        away = [info for info in client.get("/v1/devices") if info["device_id"] in missing]
        _print(away, "has not applied the result")


def _print(devices: Iterable[Mapping[str, Any]], what: str) -> None:
    now = datetime.now(UTC)
    for info in sorted(devices, key=lambda info: str(info["name"])):
        silence = _silence_s(info, now)
        if AWAY_S < silence < inf:
            print(f"{info['name']} {what}: last heard of {_in_words(silence)} ago", file=sys.stderr, flush=True)


def _silence_s(info: Mapping[str, Any], now: datetime) -> float:
    """Return for how long a device was not heard of, s; infinite for one that was shut out."""
    return inf if info["revoked_at"] else (now - datetime.fromisoformat(info["seen_at"])).total_seconds()


def _in_words(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
