"""The devices of the fleet: who they are by their secrets, lists of them, and their leaving."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import ColumnElement, bindparam, literal, select
from sqlalchemy.orm import Session

from aggregator_server.errors import DeviceRevokedError, NotAuthenticatedError, RefusedError
from aggregator_server.fleet.audit import Actor, What, audit
from aggregator_server.fleet.health import is_outdated
from aggregator_server.fleet.reputation import with_reputation
from aggregator_server.schemas import DeviceInfo, reply
from aggregator_server.security import hash_secret
from aggregator_server.store.expressions import batches, begins_with, folded
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import DEVICES, DeviceRow
from fleet_protocol.messages.rest import Versions

LISTED = 500  # devices at most in one list
_MEANT = 50  # devices at most that one name or the beginning of an identifier is looked for among
OTHER_FRONT_END = "the fleet has another front end: name its bundle in the device's edge.toml ([model] bundle). "


@dataclass(frozen=True)
class Standing:
    """The columns of a device's row that every request of it needs."""

    device_id: str
    revoked_at: float | None  # time at which it was shut out, in seconds since 1970; None where it was not
    waiting: bool
    features_digest: str  # digest of the features that it computes


STANDING = tuple(field.name for field in fields(Standing))
"""The columns of a device's row that a :class:`Standing` has, in order."""

_STANDING = select(*(DEVICES.c[name] for name in STANDING))
_OF_SECRET = _STANDING.where(DEVICES.c.secret_hash == bindparam("hash"))


def identify(tables: Tables, secret: str, *, waiting: bool = False) -> Standing:
    """Return the device that a secret belongs to. Only the thread of the event loop may call this.

    ``waiting``: whether one may ask that an operator has yet to admit. Raises NotAuthenticatedError: no device has that
    secret. DeviceRevokedError: it was revoked. RefusedError: an operator has yet to admit it.
    """
    found = tables.first_row(_OF_SECRET, {"hash": hash_secret(secret)})
    if found is None:
        raise NotAuthenticatedError("no device is enrolled with this secret; enrol at POST /v1/devices first")
    known = Standing(*found)
    require_not_revoked(known)
    if not waiting:
        require_active(known)
    return known


def is_enrolled(tables: Tables, secret: str) -> bool:
    """Tell whether a device has a secret, revoked or not. Only the thread of the event loop may call this."""
    return tables.first_row(_OF_SECRET, {"hash": hash_secret(secret)}) is not None


def leave(tables: Tables, device_id: str, now: float, by: Actor) -> None:
    """Let a device go that wants to leave; like one that was revoked, it does not come back by the same secret."""
    with tables.writing() as session:
        end_membership(session, require_device(session, device_id), now, by, "device_left")


def list_devices(tables: Tables, after: str | None = None, limit: int = LISTED) -> tuple[DeviceInfo, ...]:
    """Return so many devices, revoked ones too, oldest first, after one: one that enrols meanwhile comes at the end.

    Raises RefusedError: there is no device ``after``.
    """
    with tables.reading() as session:
        place = None if after is None else require_device(session, after)
        return with_reputation(session, [_info(row) for row in _enrolled_after(session, place, limit)])


def _enrolled_after(session: Session, place: DeviceRow | None, limit: int) -> list[DeviceRow]:
    rows = select(DeviceRow).order_by(DeviceRow.enrolled_at, DeviceRow.device_id).limit(limit)
    if place is None:
        return list(session.scalars(rows))
    # Two steps, each of which the index answers: those that enrolled at the same instant, and later ones.
    same_time = (DeviceRow.enrolled_at == place.enrolled_at) & (DeviceRow.device_id > place.device_id)
    found = list(session.scalars(rows.where(same_time)))
    later = rows.where(DeviceRow.enrolled_at > place.enrolled_at).limit(limit - len(found))
    return found + list(session.scalars(later))


def find_devices(session: Session, device_ids: Sequence[str]) -> tuple[DeviceInfo, ...]:
    """Return devices in the order of their identifiers as given; those that there are not are left out."""
    rows = {
        row.device_id: row
        for batch in batches(device_ids)
        for row in session.scalars(select(DeviceRow).where(DeviceRow.device_id.in_(batch)))
    }
    return with_reputation(session, [_info(rows[device_id]) for device_id in device_ids if device_id in rows])


def device_names(session: Session, device_ids: Sequence[str]) -> dict[str, str]:
    """Return the names of devices by their identifiers."""
    wanted = select(DeviceRow.device_id, DeviceRow.name)
    return {
        device_id: name
        for batch in batches(device_ids)
        for device_id, name in session.execute(wanted.where(DeviceRow.device_id.in_(batch)))
    }


def devices_called(tables: Tables, given: str) -> tuple[tuple[str, str, bool], ...]:
    """Return the devices that a person may mean: (identifier, name, whether it was not revoked).

    They are those with this name, whatever its case, and those whose identifier begins so, some of each.
    """
    small = {folded(literal(text)) for text in (given, given.lower())}
    with tables.reading() as session:
        ways: list[ColumnElement[bool]] = [folded(DeviceRow.name).in_(small)]
        if given and not set(given.lower()) - set("0123456789abcdef"):
            ways.append(begins_with(DeviceRow.device_id.expression, given.lower()))
        rows = select(DeviceRow.device_id, DeviceRow.name, DeviceRow.revoked_at).limit(_MEANT)
        found = {row.device_id: row for way in ways for row in session.execute(rows.where(way))}
    return tuple((row.device_id, row.name, row.revoked_at is None) for row in found.values())


def waiting_devices(tables: Tables) -> dict[str, str]:
    """Return the names of the devices that wait to be admitted, by identifier, oldest first."""
    rows = select(DeviceRow.device_id, DeviceRow.name).where(
        DeviceRow.waiting.is_(True), DeviceRow.revoked_at.is_(None)
    )
    with tables.reading() as session:
        return {row.device_id: row.name for row in session.execute(rows.order_by(DeviceRow.enrolled_at))}


def describe_device(tables: Tables, device_id: str) -> DeviceInfo:
    """Return one device. Raises RefusedError: there is no such device."""
    with tables.reading() as session:
        return with_reputation(session, [_info(require_device(session, device_id))])[0]


def require_device(session: Session, device_id: str) -> DeviceRow:
    """Return a device's row. Raises RefusedError: there is no such device."""
    row = session.get(DeviceRow, device_id)
    if row is None:
        raise RefusedError("device_not_found", f"there is no device {device_id!r}; GET /v1/devices lists them")
    return row


def end_membership(session: Session, row: DeviceRow, now: float, by: Actor, what: What) -> None:
    """Shut a device out: its secret is refused, and the open round neither waits for it nor uses its upload."""
    if row.revoked_at is None:
        row.revoked_at = now
        audit(session, what, by, now, device_id=row.device_id, name=row.name)


def require_active(row: DeviceRow | Standing) -> None:
    """Check that a device may take part. Raises DeviceRevokedError, RefusedError (an operator has yet to admit it)."""
    require_not_revoked(row)
    if row.waiting:
        raise RefusedError(
            "device_waiting",
            f"device {row.device_id} waits to be admitted by an operator (`auricle-aggregator devices admit`)",
        )


def require_not_revoked(row: DeviceRow | Standing) -> None:
    """Check that a device is no former one. Raises DeviceRevokedError: it was revoked, or left."""
    if row.revoked_at is not None:
        raise DeviceRevokedError(
            f"device {row.device_id} was revoked, or left; to take part again it needs a new invitation, a new "
            "identifier and a new secret",
            row.device_id,
        )


def _info(row: DeviceRow) -> DeviceInfo:
    versions = Versions(**(row.versions or {}))
    return reply(
        DeviceInfo,
        row,
        labels=tuple(row.labels),
        group=row.group_name,
        invitation=row.invitation_id,
        trouble=row.trouble or "",
        versions=versions,
        outdated=row.revoked_at is None and is_outdated(versions.program),
    )
