"""Checks a server and its fleet: the state of each thing, and what to do about it."""

import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from aggregator_server import tls
from aggregator_server.client import Client
from aggregator_server.errors import AggregatorError, StartError
from aggregator_server.fleet.health import count_devices, count_health, count_outdated
from aggregator_server.fleet.publications import current_model, current_version
from aggregator_server.server_address import authority_file, read_address
from aggregator_server.store.data_folder import running_instance
from aggregator_server.store.free_space import free_space, size_of
from aggregator_server.store.location import Location, locate
from aggregator_server.store.needed_blobs import one_lasting
from aggregator_server.store.opening import open_blobs, open_tables
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import DeviceRow
from fleet_protocol.ground.addresses import is_clear

State = Literal["ok", "warning", "problem"]

_DAY_S = 86_400.0
_UNSEEN_DAYS = 7
_CERTIFICATE_DAYS = 30


@dataclass(frozen=True)
class Observation:
    """One thing that was checked. ``way_out``: advice on it; "" where nothing needs to be done."""

    subject: str
    state: State
    what: str
    way_out: str = ""


Found = Iterator[tuple[str, State, str, str]]  # observations, by their attributes


def examine(place: Path | Location, now: float) -> list[Observation]:
    """Check everything and change nothing; the server may run. Raises StartError: it is no data folder."""
    location = locate(place)
    with closing(open_tables(location)) as tables:
        parts = (
            *(_folder(location.data), _disk(location), _arrays(tables, location), _server(location)),
            *(_certificate(location.data, now), _material(tables), _devices(tables, now)),
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
    used = sum(map(size_of, (location.blob_folder or location.data).rglob("*")))
    what = f"{room.free / 1e9:.1f} of {room.total / 1e9:.1f} GB are free; the fleet's arrays take {used / 1e6:.1f} MB"
    if room.free >= 2 * room.kept:
        yield "storage", "ok", what, ""
    else:
        what += f"; below {room.kept / 1e9:.1f} GB no upload is taken in"
        state: State = "warning" if room.enough else "problem"
        yield "storage", state, what, "free space on that disk"


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
        health, outdated = count_health(session, now), count_outdated(session)
        unseen = DeviceRow.seen_at < now - _UNSEEN_DAYS * _DAY_S
        silent = count_devices(session, DeviceRow.revoked_at.is_(None) & unseen)
    if not health.present:
        yield "devices", "warning", "there are none", "auricle-aggregator invite"
        return
    look = "auricle-aggregator devices list"
    found = (
        (silent, f"not seen for {_UNSEEN_DAYS} days", f"look whether they run, or revoke them ({look})"),
        (health.waiting, "wait to be admitted", "auricle-aggregator devices admit NAME"),
        (health.quarantine, "in quarantine", "where that is wrong: auricle-aggregator devices release NAME"),
        (health.trouble, "cannot contribute", f"tell their owners why ({look})"),
        (outdated, f"run an older program than {version('auricle')}", "update their boards (docs/operating.md)"),
    )
    for count, what, way_out in found:
        if count:
            yield "devices", "warning", f"{count} of {health.present}: {what}", way_out
    if not any(count for count, *_ in found):
        yield "devices", "ok", f"{health.present}, all seen within {_UNSEEN_DAYS} days", ""
