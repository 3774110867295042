"""Checks a server and its fleet: the state of each thing, and what to do about it."""

import stat
from collections.abc import Callable, Iterator
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


def examine(place: Path | Location, now: float) -> list[Observation]:
    """Check everything; nothing is changed, and the server may run.

    Raises:
        StartError: it is no data folder, or another release wrote it.
    """
    location = locate(place)
    data, tables = location.data, open_tables(location)
    try:
        parts: tuple[Callable[[], Iterator[Observation]], ...] = (
            lambda: _folder(data),
            lambda: _disk(location),
            lambda: _elsewhere(location),
            lambda: _arrays(tables, location),
            lambda: _server(location),
            lambda: _certificate(data, now),
            lambda: _clock(tables, now),
            lambda: _material(tables),
            lambda: _devices(tables, now),
        )
        return [observation for part in parts for observation in part()]
    finally:
        tables.close()


def _folder(data: Path) -> Iterator[Observation]:
    readable = [
        str(path)
        for path in (data / "tokens.json", data / "tls" / "authority.pem", data / "tls" / "server.pem")
        if path.exists() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    ]
    if readable:
        yield Observation(
            "data folder",
            "problem",
            f"others on this machine can read {', '.join(readable)}",
            f"chmod go= {' '.join(readable)}",
        )
    else:
        yield Observation("data folder", "ok", f"{data}: its tables are those of this release")


def _elsewhere(location: Location) -> Iterator[Observation]:
    if location.database is not None:
        yield Observation("database", "ok", f"{location.tables_shown} answers")
    if location.blob_folder is None:
        entries = list(open_blobs(location).entries())
        used = sum(entry.size for entry in entries)
        yield Observation("store", "ok", f"{location.blobs_shown}: {len(entries)} arrays take {used / 1e6:.1f} MB")


def _arrays(tables: Tables, location: Location) -> Iterator[Observation]:
    """Fetch an array that has to be there: a share that is not mounted looks like an empty store."""
    with tables.reading() as session:
        sha256 = one_lasting(session)
    if sha256 is not None and not open_blobs(location).is_whole(sha256):
        yield Observation(
            "arrays",
            "problem",
            f"{open_blobs(location).shown(sha256)}, which the fleet needs, is missing or damaged",
            "look whether --store is right and the share is mounted; else `auricle-aggregator check` says more",
        )


def _disk(location: Location) -> Iterator[Observation]:
    room = free_space(location.data)
    used = sum(path.stat().st_size for path in (location.blob_folder or location.data).rglob("*") if path.is_file())
    what = f"{room.free / 1e9:.1f} of {room.total / 1e9:.1f} GB are free; the fleet's arrays take {used / 1e6:.1f} MB"
    if room.free >= 2 * LEAST_FREE_SHARE * room.total:
        yield Observation("storage", "ok", what)
        return
    state: State = "warning" if room.enough else "problem"
    yield Observation(
        "storage",
        state,
        f"{what}; below {LEAST_FREE_SHARE:.0%} no upload is taken in",
        "free space on that disk, and `run` without `--keep-uploads`",
    )


def _server(location: Location) -> Iterator[Observation]:
    data, start = location.data, f"auricle-aggregator run --data {location.data}"
    url, vouching = read_address(data)
    if url is None:
        yield Observation("server", "problem", "it never ran", start)
        return
    try:
        health: dict[str, Any] = Client(url, "", authority_file(data, url, vouching)).get("/v1/health")
    except AggregatorError as error:
        yield Observation("server", "problem", str(error), f"start it ({start}), or look at its log")
        return
    running = running_instance(data)
    if running is None or (running != health.get("instance") and not location.is_shared):
        own = "none runs with this folder" if running is None else "the folder's own is another one"
        way_out = f"{start} --url ADDRESS, with an address that no other server has"
        yield Observation("server", "problem", f"one of another folder answers at {url}; {own}", way_out)
        return
    yield Observation("server", "ok", f"it answers at {url}")
    if is_clear(url):
        yield Observation(
            "network",
            "warning",
            "it speaks plain HTTP: others can read tokens, secrets and uploads",
            "run it with --tls auto, and invite the devices again",
        )
    if health["version"] != version("auricle"):
        yield Observation(
            "version",
            "warning",
            f"the server runs {health['version']}, installed is {version('auricle')}",
            "restart it",
        )
    else:
        yield Observation("version", "ok", health["version"])


def _certificate(data: Path, now: float) -> Iterator[Observation]:
    """Check the certificate that ``--tls auto`` made; another is its owner's to check."""
    url, vouching = read_address(data)
    if vouching is None or url is None or urlsplit(url).scheme != "https":
        return
    try:
        ends = tls.end_of(data)
    except StartError as error:
        yield Observation("certificate", "problem", str(error), "restore the folder tls from a backup")
        return
    days = (ends.timestamp() - now) / _DAY_S
    what = f"the server's certificate ends on {ends:%Y-%m-%d}"
    if days < _CERTIFICATE_DAYS:
        state: State = "warning" if days > 0 else "problem"
        yield Observation("certificate", state, what, "restart the server, which renews it")
    else:
        yield Observation("certificate", "ok", what)


def _clock(tables: Tables, now: float) -> Iterator[Observation]:
    with tables.reading() as session:
        newest = session.scalar(select(func.max(AuditRow.at)))
    shown = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"
    if newest is not None and newest > now + _BEHIND_S:
        noted = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M} UTC"
        yield Observation(
            "clock",
            "problem",
            f"it says {shown}, but something happened at {noted}",
            "set it (timedatectl set-ntp true): deadlines and certificates depend on it",
        )
    elif _TIMESYNC.is_dir() and not (_TIMESYNC / "synchronized").exists():
        yield Observation(
            "clock", "warning", f"it says {shown}, and no time server confirmed it", "timedatectl set-ntp true"
        )
    else:
        yield Observation("clock", "ok", shown)


def _material(tables: Tables) -> Iterator[Observation]:
    with tables.reading() as session:
        public_set, model = current_version(session), current_model(session)
        if public_set is None:
            yield Observation(
                "public set",
                "problem",
                "there is none, so no round can be opened",
                "auricle-edge public-set FOLDER -o FILE; auricle-aggregator publish FILE",
            )
        else:
            yield Observation("public set", "ok", f"version {public_set.version}, {public_set.samples} rows")
        if model is None:
            yield Observation(
                "model",
                "warning",
                "there is none: no weights can be shared, and no device can fetch a bundle",
                "auricle-aggregator publish-model base",
            )
        else:
            yield Observation("model", "ok", f"version {model.version}, {model.architecture}, {model.capacity} slots")


def _devices(tables: Tables, now: float) -> Iterator[Observation]:
    present = DeviceRow.revoked_at.is_(None)
    with tables.reading() as session:
        count = count_health(session, now).present
        if not count:
            yield Observation("devices", "warning", "there are none", "auricle-aggregator invite")
            return
        unseen = _names(session, present & (DeviceRow.seen_at < now - _UNSEEN_DAYS * _DAY_S))
        waiting = _names(session, present & DeviceRow.waiting.is_(True))
        shut = _some(session, present & DeviceRow.device_id.in_(QUARANTINED))
        troubled = _some(session, present & DeviceRow.trouble.is_not(None))
        outdated = _names(session, present & is_outdated_one(session), lambda: count_outdated(session))
    if unseen:
        yield Observation(
            "devices",
            "warning",
            f"not seen for {_UNSEEN_DAYS} days: {unseen}",
            "look whether they run (`auricle-edge status`), or revoke them (`auricle-aggregator devices revoke ID`)",
        )
    if waiting:
        yield Observation(
            "devices", "warning", f"wait to be admitted: {waiting}", "auricle-aggregator devices admit NAME"
        )
    for info in shut[:_NAMED]:
        yield Observation(
            "devices",
            "warning",
            f"{info.name} is in quarantine: {info.conduct.reason}",
            f"where that is wrong: auricle-aggregator devices release {info.device_id}",
        )
    for info in troubled[:_NAMED]:
        yield Observation("devices", "warning", f"{info.name} could not contribute: {info.trouble}", "tell its owner")
    if max(len(shut), len(troubled)) > _NAMED:
        yield Observation(
            "devices", "warning", "more devices are in quarantine or cannot contribute", "look at the dashboard's fleet"
        )
    if outdated:
        yield Observation(
            "devices",
            "warning",
            f"run an older program than {version('auricle')}: {outdated}",
            "update their boards (docs/operating.md)",
        )
    if not (unseen or waiting or shut or troubled or outdated):
        yield Observation("devices", "ok", f"{count}, all seen within {_UNSEEN_DAYS} days")


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
