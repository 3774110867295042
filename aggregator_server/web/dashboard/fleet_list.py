"""The list of the fleet: narrowed by a word and a state, ordered by name, in pages; and the whole of it as a file."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from sqlalchemy import ColumnElement, and_, func, literal, select, true, tuple_
from sqlalchemy.orm import Session

from aggregator_server.fleet.devices import find_devices
from aggregator_server.fleet.health import SEEN_S, health_of, is_outdated_one
from aggregator_server.fleet.reputation import QUARANTINED, SUSPECTED
from aggregator_server.schemas import DeviceInfo
from aggregator_server.store import Tables
from aggregator_server.store.expressions import folded
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow
from fleet_protocol.limits import NAME_LENGTH

PAGE = 100  # devices
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
_id: ColumnElement[str] = DeviceRow.device_id.expression
_name: ColumnElement[str] = folded(DeviceRow.name)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula begins so


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What somebody looks for.

    Attributes:
        search: Part of a name or identifier; empty: every device.
        state: One of ``STATES``; empty: any.
        after: Identifier of the last device of the page before; empty: the first page.
    """

    search: str = ""
    state: str = ""
    after: str = ""

    @classmethod
    def of(cls, search: str = "", state: str = "", after: str = "") -> Wanted:
        """Return what an address asks for; what it cannot ask for is ignored, and texts are cut to their bound."""
        return cls(search=_text(search), state=state if state in STATES else "", after=_text(after))

    @property
    def first(self) -> Wanted:
        """The first page of the same list."""
        return replace(self, after="")

    def address(self, path: str = "/fleet") -> str:
        """Return the address of this list."""
        fields = {"search": self.search, "state": self.state, "after": self.after}
        shown = {name: value for name, value in fields.items() if value}
        return f"{path}?{urlencode(shown)}" if shown else path


def _text(value: str) -> str:
    return value.replace("\0", "").strip()[:NAME_LENGTH]


def find_page(tables: Tables, wanted: Wanted, now: float) -> tuple[tuple[Listed, ...], Wanted | None]:
    """Return the devices of a page, each with its health, and the page that follows; None: there is none.

    A device that was there all the time, with one name, stands on exactly one page, whoever enrols meanwhile.
    """
    with tables.reading() as session:
        conditions = [_is_in(session, wanted.state, now), _is_called(wanted.search)]
        if wanted.after:
            name = select(_name).where(_id == wanted.after).scalar_subquery()
            conditions.append(tuple_(_name, _id) > tuple_(name, literal(wanted.after)))
        ids = session.scalars(select(_id).where(*conditions).order_by(_name, _id).limit(PAGE + 1)).all()
        shown = tuple((device, health_of(device, now)) for device in find_devices(session, ids[:PAGE]))
    return shown, replace(wanted, after=ids[PAGE - 1]) if len(ids) > PAGE else None


def _is_called(word: str) -> ColumnElement[bool]:
    if not word:
        return true()
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", word) + "%"
    return _name.like(func.lower(pattern), escape="\\") | _id.like(pattern.lower(), escape="\\")


def _is_in(session: Session, state: str, now: float) -> ColumnElement[bool]:
    """Return the condition of a state; ``health_of`` says the same of one device."""
    if state == "outdated":
        return DeviceRow.revoked_at.is_(None) & is_outdated_one(session)
    seen, trusted, calm = DeviceRow.seen_at >= now - SEEN_S, _id.not_in(QUARANTINED), DeviceRow.trouble.is_(None)
    conditions = {
        "": (true(),),
        "revoked": (DeviceRow.revoked_at.is_not(None),),
        "online": (DeviceRow.revoked_at.is_(None), seen),
        "waiting": (DeviceRow.revoked_at.is_(None), DeviceRow.waiting.is_(True)),
        "quarantine": (IS_ACTIVE, _id.in_(QUARANTINED)),
        "trouble": (IS_ACTIVE, trusted, DeviceRow.trouble.is_not(None)),
        "silent": (IS_ACTIVE, trusted, calm, ~seen),
        "suspicious": (IS_ACTIVE, trusted, calm, seen, _id.in_(SUSPECTED)),
        "well": (IS_ACTIVE, trusted, calm, seen, _id.not_in(SUSPECTED)),
    }
    return and_(*conditions[state])


def as_csv(tables: Tables, wanted: Wanted) -> Iterator[str]:
    """Yield the parts of all pages as CSV of RFC 4180; a text that a spreadsheet would compute gets an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(
        ("device_id", "name", "health", "group", "network", "version", "labels", "clips", "seen_at", "enrolled_at")
    )
    following: Wanted | None = wanted.first
    while following is not None:
        listed, following = find_page(tables, following, time.time())
        writer.writerows([_harmless(value) for value in _row(*item)] for item in listed)
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _row(device: DeviceInfo, health: str) -> Sequence[object]:
    told = (device.group or "", device.architecture, device.versions.program, "; ".join(device.labels), device.clips)
    return (device.device_id, device.name, health, *told, device.seen_at.isoformat(), device.enrolled_at.isoformat())


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA) else value
