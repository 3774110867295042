"""Who stands behind a class that the fleet discovered: who sent it, who refused it, what an operator says of it.

A device listens for a class of others only if enough different devices sent it, or somebody vouches for it
(docs/security.md, "Bad devices"). A class counts the devices that mean one sound, and none that was revoked or is in
quarantine.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy.orm import Session

from aggregator_server import limits
from aggregator_server.errors import InvalidRequestError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes, merged_classes, require_class
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.store.store import Store
from aggregator_server.store.tables import (
    ACTIVE,
    DEVICES,
    REFUSALS,
    SENDERS,
    BackingRow,
    DeviceRow,
    LearnedRow,
    SenderRow,
)
from fleet_protocol.messages.rest import ClassBacking, Refusal

_TRUSTED = DEVICES.c.revoked_at.is_(None) & DEVICES.c.device_id.not_in(QUARANTINED)
_SENT = select(SENDERS.c.class_id, SENDERS.c.device_id)
_COUNTED = _SENT.join(DEVICES, DEVICES.c.device_id == SENDERS.c.device_id).where(SENDERS.c.agrees.is_(True), _TRUSTED)
_REFUSED = (
    select(REFUSALS.c.class_id, REFUSALS.c.round_id, REFUSALS.c.why, func.count())
    .join(DEVICES, DEVICES.c.device_id == REFUSALS.c.device_id)
    .where(_TRUSTED)
    .group_by(REFUSALS.c.class_id, REFUSALS.c.round_id, REFUSALS.c.why)
)
# Devices that must refuse a class, and more than half of those that learned, before it waits for an operator.
_FEWEST = 2


def backing_of(session: Session) -> tuple[ClassBacking, ...]:
    """Return who stands behind each active class that was discovered, in column order."""
    senders, approved = _by_class(session, _COUNTED), _approved(session)
    refused = {class_id for class_id, found in refusals(session).items() if found["quarantined"]}
    return tuple(
        ClassBacking(
            info.class_id,
            min(len(senders[info.class_id]), limits.SENDERS),
            info.class_id in approved,
            info.class_id in refused - approved,
        )
        for info in all_classes(session)
        if info.discovered_in is not None
    )


def _by_class(session: Session, sent: Select[Any]) -> dict[str, set[str]]:
    """Return the devices of (class, device) by class; what was sent of a merged one is of the class that it is now."""
    merged, found = merged_classes(session), defaultdict[str, set[str]](set)
    rows: Iterable[Any] = session.execute(sent)
    for class_id, device_id in rows:
        found[merged.get(class_id, class_id)].add(device_id)
    return found


def _approved(session: Session) -> set[str]:
    return set(session.scalars(select(BackingRow.class_id).where(BackingRow.approved.is_(True))))


def refusals(session: Session) -> dict[str, dict[str, Any]]:
    """Return of each refused class how many devices refused it, by why, and whether these are most that tried it."""
    found: dict[str, dict[str, Any]] = {}
    rows: Iterable[Any] = session.execute(_REFUSED)
    for class_id, round_id, why, count in rows:
        one = found.setdefault(class_id, {"round_id": 0, "why": Counter()})
        one["round_id"] = max(one["round_id"], round_id)
        one["why"][why] += count
    for class_id, one in found.items():
        learned = select(func.count()).select_from(LearnedRow).where(LearnedRow.round_id == one["round_id"])
        owners = select(func.count()).select_from(SenderRow).where(SenderRow.class_id == class_id)
        tried = (session.scalar(learned) or 0) - (session.scalar(owners) or 0)
        refused = one["why"].total()
        one["quarantined"] = refused >= _FEWEST and 2 * refused > tried
    return found


def note_senders(session: Session, senders: Mapping[str, Sequence[tuple[str, bool]]]) -> None:
    """Note who sent classes by now, as (device, whether it means the same sound as most), in place of former notes."""
    for class_id, devices in senders.items():
        session.execute(delete(SenderRow).where(SenderRow.class_id == class_id))
        first = sorted(devices, key=lambda device: not device[1])[: limits.SENDERS]
        if first:
            rows = [{"class_id": class_id, "device_id": device_id, "agrees": agrees} for device_id, agrees in first]
            session.execute(insert(SenderRow), rows)


def add_senders(session: Session, assigned: Collection[tuple[str, str]]) -> None:
    """Note that devices sent classes, (class, device) each, beside those noted before."""
    for class_id, pairs in groupby(sorted(set(assigned)), key=lambda pair: pair[0]):
        known = set(session.scalars(select(SenderRow.device_id).where(SenderRow.class_id == class_id)))
        new = [device_id for _, device_id in pairs if device_id not in known][: max(0, limits.SENDERS - len(known))]
        if new:
            rows = [{"class_id": class_id, "device_id": device_id, "agrees": True} for device_id in new]
            session.execute(insert(SenderRow), rows)


def note_refusals(session: Session, device_id: str, round_id: int, refused: Mapping[str, Refusal]) -> None:
    """Note for which classes a device does not listen, in place of what it said before."""
    session.execute(delete(REFUSALS).where(REFUSALS.c.device_id == device_id))
    known = {info.class_id for info in all_classes(session) if info.discovered_in is not None} if refused else ()
    for class_id, why in refused.items():
        if class_id in known:
            whose = {"class_id": class_id, "device_id": device_id, "round_id": round_id, "why": why}
            session.execute(insert(REFUSALS).values(whose))


def sent_alone(session: Session) -> dict[str, list[str]]:
    """Return by device the active classes that it alone sent, and no operator approved, in column order."""
    senders, approved = _by_class(session, _SENT), _approved(session)
    found: dict[str, list[str]] = defaultdict(list)
    for info in all_classes(session):
        if info.discovered_in is not None and len(senders[info.class_id]) == 1 and info.class_id not in approved:
            found[next(iter(senders[info.class_id]))].append(info.class_id)
    return dict(found)


def approve_class(store: Store, class_id: str, by: Actor = SERVER) -> None:
    """Let every device listen for a class; they hear of it with the next round.

    Raises ClassNotFoundError: there is none. InvalidRequestError: nobody sent it.
    """
    with store.writing() as session:
        row = require_class(session, class_id, ACTIVE)
        if row.discovered_in is None:
            raise InvalidRequestError(f"class {class_id!r} is of the public set, so every device may listen for it")
        _row(session, class_id).approved = True
        audit(session, "class_approved", by, time.time(), class_id=class_id, name=row.name)


def _row(session: Session, class_id: str) -> BackingRow:
    found = session.get(BackingRow, class_id)
    if found is None:
        found = BackingRow(class_id=class_id, approved=False, leaving=False)
        session.add(found)
    return found


def let_go(session: Session, device_ids: Collection[str]) -> None:
    """Note that discovered classes go which revoked devices alone sent; they are retired once no round is open."""
    gone = set(session.scalars(select(DeviceRow.device_id).where(DeviceRow.revoked_at.is_not(None))))
    senders = _by_class(session, _SENT)
    for info in all_classes(session):
        of_class = senders[info.class_id] if info.discovered_in is not None else set()
        if of_class.intersection(device_ids) and of_class <= gone and not _row(session, info.class_id).approved:
            _row(session, info.class_id).leaving = True


def leaving(session: Session) -> tuple[str, ...]:
    """Return the classes that are to be retired."""
    wanted = set(session.scalars(select(BackingRow.class_id).where(BackingRow.leaving.is_(True))))
    return tuple(info.class_id for info in all_classes(session) if info.class_id in wanted)


def forget_leaving(session: Session, class_ids: Collection[str]) -> None:
    """Note that classes were retired: one that an operator brings back stays."""
    for row in session.scalars(select(BackingRow).where(BackingRow.class_id.in_(class_ids))):
        row.leaving = False
