"""Which devices the page of the fleet lists, in which order, and the same list as a file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query

from aggregator_server.schemas import DeviceInfo
from fleet_protocol.limits import NAME_LENGTH

PAGE = 100  # devices
_PAGES = 10_000
_DEVICE_ID = re.compile("[0-9a-f]{32}")
_SURROGATE = re.compile("[\ud800-\udfff]")
STATES = {
    "online": "heard of lately",
    "silent": "not heard of",
    "waiting": "waits to be admitted",
    "quarantine": "in quarantine",
    "trouble": "cannot contribute",
    "suspicious": "stood out",
    "outdated": "outdated",
    "well": "well",
    "revoked": "revoked",
}
Listed = tuple[DeviceInfo, str]
SORTS = ("name", "health", "seen", "network", "version", "clips")
COLUMNS = {
    "name": "Device",
    "health": "Health",
    "seen": "Last seen",
    "network": "Network",
    "version": "Version",
    "": "Owner's labels",
    "clips": "Clips",
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula begins so


_LONGEST_PLACE = 2_000  # characters
_LARGEST = 2.0**53


@dataclass(frozen=True)
class Place:
    """Where a page of a long list ends: behind the device with this key in a part of the list.

    Attributes:
        label: Part of the list (``fleet_search``).
        key: What the list is ordered by there; None: by identifiers alone.
    """

    label: str
    key: str | float | None
    device_id: str

    @classmethod
    def of(cls, text: str) -> Place | None:
        """Return the place that an address names; None where it names none."""
        try:
            label, key, device_id = json.loads(text[:_LONGEST_PLACE])
        except (ValueError, TypeError, RecursionError):
            return None
        is_key = key is None or _is_text(key) or (type(key) in (int, float) and abs(key) <= _LARGEST)
        if not (_is_text(label) and is_key and isinstance(device_id, str) and _DEVICE_ID.fullmatch(device_id)):
            return None
        return cls(label, key, device_id)

    def __str__(self) -> str:
        return json.dumps([self.label, self.key, self.device_id], separators=(",", ":"), ensure_ascii=False)


def _is_text(value: object) -> bool:
    """Tell whether a value is a text that a database takes: neither half a character nor a 0 is in it."""
    return isinstance(value, str) and "\0" not in value and not _SURROGATE.search(value)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What somebody looks for.

    Attributes:
        search: Word of a name, group, network, version, label or identifier; empty: every device.
        state: One of ``STATES``; empty: any.
        network: Name of an architecture, whatever its case; empty: any.
        version: Version of the program; empty: any.
        down: Whether the largest come first.
        page: Number of the page, from 1, where few devices are looked for.
        after: End of the page before, where many are; None: the first page.
    """

    search: str = ""
    state: str = ""
    group: str = ""
    network: str = ""
    version: str = ""
    sort: str = "health"
    down: bool = False
    page: int = 1
    after: Place | None = None

    @classmethod
    def of(
        cls,
        search: str = "",
        state: str = "",
        group: str = "",
        network: str = "",
        version: str = "",
        sort: str = "",
        order: str = "",
        page: Annotated[int, Query(ge=1, lt=2**31)] = 1,
        after: str = "",
    ) -> Wanted:
        """Return what an address asks for; what it cannot ask for is ignored, and texts are cut to their bound."""
        return cls(
            search=_text(search),
            state=state if state in STATES else "",
            group=_text(group),
            network=_text(network),
            version=_text(version),
            sort=sort if sort in SORTS else "health",
            down=order == "down",
            page=max(1, min(_PAGES, page)),
            after=Place.of(after),
        )

    def on_page(self, page: int) -> Wanted:
        """Return the list's page with a number."""
        return replace(self, page=page, after=None)

    def behind(self, place: Place) -> Wanted:
        """Return the list's page that begins behind a place."""
        return replace(self, page=1, after=place)

    @property
    def filtered(self) -> bool:
        """Whether it is a part of the fleet."""
        return bool(self.search or self.state or self.group or self.network or self.version)

    def address(self, path: str = "/fleet", **changed: str) -> str:
        """Return the address of this list, or of the first page of one that differs from it."""
        fields: dict[str, str | int] = {
            "search": self.search,
            "state": self.state,
            "group": self.group,
            "network": self.network,
            "version": self.version,
            "sort": self.sort,
            "order": "down" if self.down else "",
            "page": 1 if changed else self.page,
            "after": "" if changed or self.after is None else str(self.after),
        }
        left_out = {"sort": "health", "page": 1}
        shown = {name: value for name, value in (fields | changed).items() if value and value != left_out.get(name)}
        return f"{path}?{urlencode(shown)}" if shown else path

    def sorting(self, column: str) -> str:
        """Return the address of the list by a column; by the same column again: the other way round."""
        turned = "down" if column == self.sort and not self.down else ""
        return self.address(sort=column, order=turned)


def _text(value: str) -> str:
    return value.replace("\0", "").strip()[:NAME_LENGTH]


def as_json(pages: Iterable[Sequence[Listed]]) -> Iterator[str]:
    """Yield the parts of a JSON list of devices."""
    begin = "["
    for listed in pages:
        for item in listed:
            yield begin + "\n" + json.dumps(_row(item), ensure_ascii=False)
            begin = ","
    yield "[]\n" if begin == "[" else "\n]\n"


def as_csv(pages: Iterable[Sequence[Listed]]) -> Iterator[str]:
    """Yield the parts of devices as CSV of RFC 4180; a text that a spreadsheet would compute gets an apostrophe."""
    text = io.StringIO()
    names = ("device_id", "name", "health", "group", "network", "version", "labels", "clips", "seen_at", "enrolled_at")
    writer = csv.DictWriter(text, names, extrasaction="ignore")
    writer.writeheader()
    for listed in pages:
        for item in listed:
            row = _row(item) | {"labels": "; ".join(item[0].labels)}
            writer.writerow({name: _harmless(value) for name, value in row.items()})
        yield text.getvalue()
        text.seek(0)
        text.truncate()


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
