"""Checks a server and its fleet: the state of each thing, and what to do about it."""

import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from aggregator_server import tls
from aggregator_server.client import Client
from aggregator_server.errors import AggregatorError, StartError
from aggregator_server.fleet.devices import find_devices
from aggregator_server.fleet.health import count_devices, count_health, count_outdated, is_outdated_one
from aggregator_server.fleet.public_sets import current_version
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.fleet.shared_models import current_model
from aggregator_server.limits import LEAST_FREE_SHARE
from aggregator_server.schemas import DeviceInfo
from aggregator_server.server_address import authority_file, read_address
from aggregator_server.store import Tables, open_blobs, open_tables, running_instance
from aggregator_server.store.free_space import free_space
from aggregator_server.store.location import Location, locate
from aggregator_server.store.needed import one_lasting
from aggregator_server.store.tables import AuditRow, DeviceRow
from fleet_protocol.addresses import is_clear

State = Literal["ok", "warning", "problem"]

_DAY_S = 86_400.0
_UNSEEN_DAYS = 7
_NAMED = 20  # devices at most for one thing that is wrong
_CERTIFICATE_DAYS = 30
# A clock this far behind the newest entry of the audit was set back, s.
_BEHIND_S = 120.0
# systemd-timesyncd keeps a folder, and in it a file once the clock is right.
_TIMESYNC = Path("/run/systemd/timesync")


@dataclass(frozen=True)
class Observation:
    """One thing that was checked.

    Attributes:
        way_out: Advice on it; "" where nothing needs to be done.
    """

    subject: str
    state: State
    what: str
    way_out: str = ""


Found = Iterator[tuple[str, State, str, str]]
"""Observations, by their attributes."""


def examine(place: Path | Location, now: float) -> list[Observation]:
    """Check everything; nothing is changed, and the server may run.

    Raises:
        StartError: it is no data folder, or another release wrote it.
    """
    location = locate(place)
    with closing(open_tables(location)) as tables:
        parts = (
            *(_folder(location.data), _disk(location), _elsewhere(location), _arrays(tables, location)),
            *(_server(location), _certificate(location.data, now), _clock(tables, now), _material(tables)),
            _devices(tables, now),
        )
        return [Observation(*found) for part in parts for found in part]


def _folder(data: Path) -> Found:
    secrets = (data / "tokens.json", data / "tls" / "authority.pem", data / "tls" / "server.pem")
    readable = " ".join(
        str(path) for path in secrets if path.exists() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    )
    if readable:
        yield "data folder", "problem", f"others on this machine can read {readable}", f"chmod go= {readable}"
    else:
        yield "data folder", "ok", f"{data}: its tables are those of this release", ""


def _disk(location: Location) -> Found:
    room = free_space(location.data)
    used = sum(path.stat().st_size for path in (location.blob_folder or location.data).rglob("*") if path.is_file())
    what = f"{room.free / 1e9:.1f} of {room.total / 1e9:.1f} GB are free; the fleet's arrays take {used / 1e6:.1f} MB"
    if room.free >= 2 * LEAST_FREE_SHARE * room.total:
        yield "storage", "ok", what, ""
    else:
        what += f"; below {LEAST_FREE_SHARE:.0%} no upload is taken in"
        state: State = "warning" if room.enough else "problem"
        yield "storage", state, what, "free space on that disk"


def _elsewhere(location: Location) -> Found:
    if location.database is not None:
        yield "database", "ok", f"{location.tables_shown} answers", ""
    if location.blob_folder is None:
        sizes = [entry.size for entry in open_blobs(location).entries()]
        yield "store", "ok", f"{location.blobs_shown}: {len(sizes)} arrays take {sum(sizes) / 1e6:.1f} MB", ""


def _arrays(tables: Tables, location: Location) -> Found:
    """Fetch an array that has to be there: a share that is not mounted looks like an empty store."""
    with tables.reading() as session:
        sha256 = one_lasting(session)
    if sha256 is not None and not open_blobs(location).is_whole(sha256):
        what = f"{open_blobs(location).shown(sha256)}, which the fleet needs, is missing or damaged"
        way_out = "look whether --store is right and the share is mounted; else `auricle-aggregator check` says more"
        yield "arrays", "problem", what, way_out


def _server(location: Location) -> Found:
    data, start = location.data, f"auricle-aggregator run --data {location.data}"
    url, vouching = read_address(data)
    if url is None:
        yield "server", "problem", "it never ran", start
        return
    try:
        health: dict[str, Any] = Client(url, "", authority_file(data, url, vouching)).get("/v1/health")
    except AggregatorError as error:
        yield "server", "problem", str(error), f"start it ({start}), or look at its log"
        return
    running = running_instance(data)
    if running is None or (running != health.get("instance") and not location.is_shared):
        own = "none runs with this folder" if running is None else "the folder's own is another one"
        way_out = f"{start} --url ADDRESS, with an address that no other server has"
        yield "server", "problem", f"one of another folder answers at {url}; {own}", way_out
        return
    yield "server", "ok", f"it answers at {url}", ""
    if is_clear(url):
        what = "it speaks plain HTTP: others can read tokens, secrets and uploads"
        yield "network", "warning", what, "run it with --tls auto, and invite the devices again"
    own = version("auricle")
    if health["version"] != own:
        yield "version", "warning", f"the server runs {health['version']}, installed is {own}", "restart it"
    else:
        yield "version", "ok", own, ""


def _certificate(data: Path, now: float) -> Found:
    """Check the certificate that ``--tls auto`` made; another is its owner's to check."""
    url, vouching = read_address(data)
    if vouching is None or url is None or urlsplit(url).scheme != "https":
        return
    try:
        ends = tls.end_of(data)
    except StartError as error:
        yield "certificate", "problem", str(error), "restore the folder tls from a backup"
        return
    days = (ends.timestamp() - now) / _DAY_S
    what = f"the server's certificate ends on {ends:%Y-%m-%d}"
    if days < _CERTIFICATE_DAYS:
        yield "certificate", "warning" if days > 0 else "problem", what, "restart the server, which renews it"
    else:
        yield "certificate", "ok", what, ""


def _clock(tables: Tables, now: float) -> Found:
    with tables.reading() as session:
        newest = session.scalar(select(func.max(AuditRow.at)))
    shown = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"
    if newest is not None and newest > now + _BEHIND_S:
        what = f"it says {shown}, but something happened at {datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M} UTC"
        yield "clock", "problem", what, "set it (timedatectl set-ntp true): deadlines and certificates depend on it"
    elif _TIMESYNC.is_dir() and not (_TIMESYNC / "synchronized").exists():
        yield "clock", "warning", f"it says {shown}, and no time server confirmed it", "timedatectl set-ntp true"
    else:
        yield "clock", "ok", shown, ""


def _material(tables: Tables) -> Found:
    with tables.reading() as session:
        public_set, model = current_version(session), current_model(session)
        if public_set is None:
            way_out = "auricle-edge public-set FOLDER -o FILE; auricle-aggregator publish FILE"
            yield "public set", "problem", "there is none, so no round can be opened", way_out
        else:
            yield "public set", "ok", f"version {public_set.version}, {public_set.samples} rows", ""
        if model is None:
            what = "there is none: no weights can be shared, and no device can fetch a bundle"
            yield "model", "warning", what, "auricle-aggregator publish-model base"
        else:
            yield "model", "ok", f"version {model.version}, {model.architecture}, {model.capacity} slots", ""


def _devices(tables: Tables, now: float) -> Found:
    with tables.reading() as session:
        count = count_health(session, now).present
        found = list(_of_devices(session, now)) if count else [("there are none", "auricle-aggregator invite")]
    for what, way_out in found:
        yield "devices", "warning", what, way_out
    if not found:
        yield "devices", "ok", f"{count}, all seen within {_UNSEEN_DAYS} days", ""


def _of_devices(session: Session, now: float) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with devices, and what to do about it."""
    present = DeviceRow.revoked_at.is_(None)
    unseen = _names(session, present & (DeviceRow.seen_at < now - _UNSEEN_DAYS * _DAY_S))
    if unseen:
        way_out = (
            "look whether they run (`auricle-edge status`), or revoke them (`auricle-aggregator devices revoke ID`)"
        )
        yield f"not seen for {_UNSEEN_DAYS} days: {unseen}", way_out
    if waiting := _names(session, present & DeviceRow.waiting.is_(True)):
        yield f"wait to be admitted: {waiting}", "auricle-aggregator devices admit NAME"
    shut = _some(session, present & DeviceRow.device_id.in_(QUARANTINED))
    for info in shut[:_NAMED]:
        way_out = f"where that is wrong: auricle-aggregator devices release {info.device_id}"
        yield f"{info.name} is in quarantine: {info.conduct.reason}", way_out
    troubled = _some(session, present & DeviceRow.trouble.is_not(None))
    for info in troubled[:_NAMED]:
        yield f"{info.name} could not contribute: {info.trouble}", "tell its owner"
    if max(len(shut), len(troubled)) > _NAMED:
        yield "more devices are in quarantine or cannot contribute", "look at the dashboard's fleet"
    if outdated := _names(session, present & is_outdated_one(session), lambda: count_outdated(session)):
        what = f"run an older program than {version('auricle')}: {outdated}"
        yield what, "update their boards (docs/operating.md)"


def _some(session: Session, condition: ColumnElement[bool]) -> tuple[DeviceInfo, ...]:
    """Return the devices that meet a condition, at most one more than are named."""
    found = select(DeviceRow.device_id).where(condition).limit(_NAMED + 1)
    return find_devices(session, session.scalars(found).all())


def _names(session: Session, condition: ColumnElement[bool], count: Callable[[], int] | None = None) -> str:
    """Return the names of devices that meet a condition, not of all where they are many; empty where there is none.

    Args:
        count: returns how many there are, where that can be had by indices.
    """
    some = _some(session, condition)
    names = ", ".join(f"{info.name} ({info.device_id[:8]})" for info in some[:_NAMED])
    more = 0
    if len(some) > _NAMED:
        more = (count_devices(session, condition) if count is None else count()) - _NAMED
    return f"{names} and {more} more" if more else names
