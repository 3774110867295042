"""Which devices the page of the fleet lists, in which order, and the same list as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query

from aggregator_server.fleet.versions import numbers_of
from aggregator_server.schemas import DeviceInfo
from aggregator_server.web.dashboard.languages import N_
from aggregator_server.web.metrics import SEEN_S
from fleet_protocol.limits import NAME_LENGTH

PAGE = 100  # devices
_PAGES = 10_000
_HEALTH = ("waiting", "quarantine", "trouble", "suspicious", "silent", "well", "revoked")
STATES = {
    "online": N_("heard of lately"),
    "silent": N_("not heard of"),
    "waiting": N_("waits to be admitted"),
    "quarantine": N_("in quarantine"),
    "trouble": N_("cannot contribute"),
    "suspicious": N_("stood out"),
    "outdated": N_("outdated"),
    "well": N_("well"),
    "revoked": N_("revoked"),
}
Listed = tuple[DeviceInfo, str]
_KEYS: dict[str, Callable[[Listed], Any]] = {
    "name": lambda listed: listed[0].name.casefold(),
    "health": lambda listed: _HEALTH.index(listed[1]),
    "seen": lambda listed: listed[0].seen_at,
    "network": lambda listed: listed[0].architecture.casefold(),
    "version": lambda listed: numbers_of(listed[0].versions.program),
    "clips": lambda listed: listed[0].clips,
}
COLUMNS = {
    "name": N_("Device"),
    "health": N_("Health"),
    "seen": N_("Last seen"),
    "network": N_("Network"),
    "version": N_("Version"),
    "": N_("Owner's labels"),
    "clips": N_("Clips"),
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula begins so


def health_of(device: DeviceInfo, now: float) -> str:
    """Return in one word how a device is: the first of these that holds.

    ``revoked``, ``waiting``, ``quarantine``, ``trouble`` (it says why it cannot contribute), ``silent`` (not heard of
    for 15 minutes), ``suspicious``, ``well``.
    """
    if device.revoked_at is not None:
        return "revoked"
    if device.waiting:
        return "waiting"
    if device.conduct.quarantined_at is not None:
        return "quarantine"
    if device.trouble:
        return "trouble"
    if now - device.seen_at.timestamp() > SEEN_S:
        return "silent"
    return "suspicious" if device.conduct.suspicion else "well"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What somebody looks for.

    Attributes:
        search: Word of a name, group, version, label or identifier; empty: every device.
        state: One of ``STATES``; empty: any.
        down: Whether the largest come first.
        page: Number of the page, from 1.
    """

    search: str = ""
    state: str = ""
    group: str = ""
    sort: str = "health"
    down: bool = False
    page: int = 1

    @classmethod
    def of(
        cls,
        search: str = "",
        state: str = "",
        group: str = "",
        sort: str = "",
        order: str = "",
        page: Annotated[int, Query(ge=1, lt=2**31)] = 1,
    ) -> Wanted:
        """Return what an address asks for; what it cannot ask for is ignored, and texts are cut to their bound."""
        return cls(
            search=search.strip()[:NAME_LENGTH],
            state=state if state in STATES else "",
            group=group.strip()[:NAME_LENGTH],
            sort=sort if sort in _KEYS else "health",
            down=order == "down",
            page=max(1, min(_PAGES, page)),
        )

    def address(self, path: str = "/fleet", **changed: str | int) -> str:
        """Return the address of this list, or of one that differs from it."""
        fields: dict[str, str | int] = {
            "search": self.search,
            "state": self.state,
            "group": self.group,
            "sort": self.sort,
            "order": "down" if self.down else "",
            "page": self.page,
        }
        fields |= {"page": 1} | changed
        left_out = {"sort": "health", "page": 1}
        shown = {name: value for name, value in fields.items() if value and value != left_out.get(name)}
        return f"{path}?{urlencode(shown)}" if shown else path

    def sorting(self, column: str) -> str:
        """Return the address of the list by a column; by the same column again: the other way round."""
        turned = "down" if column == self.sort and not self.down else ""
        return self.address(sort=column, order=turned)


def found(devices: Sequence[DeviceInfo], wanted: Wanted, now: float) -> list[Listed]:
    """Return the devices that are looked for with their health, in order; equal ones by name."""
    word = wanted.search.casefold()
    listed = [(device, health_of(device, now)) for device in devices]
    fitting = [
        item
        for item in listed
        if word in _words(item[0])
        and (not wanted.group or item[0].group == wanted.group)
        and (not wanted.state or _is_in(item, wanted.state, now))
    ]
    fitting.sort(key=lambda item: (item[0].name.casefold(), item[0].device_id))
    return sorted(fitting, key=_KEYS[wanted.sort], reverse=wanted.down)


def _is_in(listed: Listed, state: str, now: float) -> bool:
    device, health = listed
    if state == "online":
        return health != "revoked" and now - device.seen_at.timestamp() <= SEEN_S
    if state == "outdated":
        return device.outdated
    return health == state


def _words(device: DeviceInfo) -> str:
    """Return what a device is found by."""
    return "\n".join(
        (device.name, device.device_id, device.group or "", device.versions.program, *device.labels)
    ).casefold()


def as_json(listed: Sequence[Listed]) -> str:
    """Return devices as a JSON list."""
    return json.dumps([_row(item) for item in listed], ensure_ascii=False, indent=1) + "\n"


def as_csv(listed: Sequence[Listed]) -> str:
    """Return devices as CSV of RFC 4180; a text that a spreadsheet would compute gets an apostrophe."""
    text = io.StringIO()
    names = ("device_id", "name", "health", "group", "network", "version", "labels", "clips", "seen_at", "enrolled_at")
    writer = csv.DictWriter(text, names, extrasaction="ignore")
    writer.writeheader()
    for item in listed:
        row = _row(item) | {"labels": "; ".join(item[0].labels)}
        writer.writerow({name: _harmless(value) for name, value in row.items()})
    return text.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA) else value


def _row(listed: Listed) -> dict[str, Any]:
    device, health = listed
    return {
        "device_id": device.device_id,
        "name": device.name,
        "health": health,
        "group": device.group or "",
        "network": device.architecture,
        "version": device.versions.program,
        "labels": list(device.labels),
        "clips": device.clips,
        "seen_at": device.seen_at.isoformat(),
        "enrolled_at": device.enrolled_at.isoformat(),
    }
