"""The reputation of devices: how many uploads counted, stood out or were refused; and quarantine for the worst.

A screened or refused upload raises a device's suspicion by 1, one that counted lowers it by 1. One that was screened
though its number of clips may explain it does neither. At ``SUSPICION`` the device is put in quarantine: its uploads no
longer count and no round waits for it, but it still learns. An operator can put a device in quarantine too, sees why it
is there, and releases it.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.limits import SUSPICION
from aggregator_server.schemas import DeviceInfo, ReputationInfo, reply
from aggregator_server.store.expressions import batches
from aggregator_server.store.tables import IS_SUSPECTED, REPUTATIONS, ReputationRow

QUARANTINED = select(REPUTATIONS.c.device_id).where(REPUTATIONS.c.quarantined_at.is_not(None))
"""The devices in quarantine, for conditions of queries."""
SUSPECTED = select(ReputationRow.device_id).where(IS_SUSPECTED)
"""The devices whose uploads stood out, or were refused, lately."""

_REASON_LENGTH = 1_000


def suspicion_after(suspicion: int, why: Mapping[str, Any] | None) -> int:
    """Return the suspicion against a device after another upload; at ``SUSPICION`` it is put in quarantine.

    ``why``: why the screen dropped the upload, as the round's details have it; empty: it was refused; None: it counted.
    """
    if why is None:
        return max(0, suspicion - 1)
    return suspicion if why.get("explained") else suspicion + 1


def note_refusal(session: Session, device_id: str, round_id: int, message: str, now: float) -> None:
    """Note that an upload was refused for its values; once for each round, because devices try again."""
    row = reputation_of(session, device_id)
    if row.refused_in != round_id:
        row.refused += 1
        row.refused_in, row.refusal = round_id, message[:_REASON_LENGTH]
        _suspect(session, row, {}, f"round {round_id} refused its upload: {message}", now)


def note_round(
    session: Session,
    round_id: int,
    uploaded: Sequence[str],
    screened: Mapping[str, Mapping[str, Any]],
    now: float,
    limit: int = SUSPICION,
) -> tuple[str, ...]:
    """Note whose uploads counted in a round, and whose stood out; return the devices that this put in quarantine.

    ``screened``: by device, why the screen dropped its upload, as in the round's details. ``limit``: the suspicion for
    quarantine.
    """
    found, rows = [], _rows(session, uploaded)
    for device_id in uploaded:
        row = rows.get(device_id) or _new_row(session, device_id)
        if device_id not in screened:
            row.counted, row.suspicion = row.counted + 1, suspicion_after(row.suspicion, None)
            continue
        row.screened += 1
        why = screened[device_id]
        if _suspect(session, row, why, f"round {round_id}: {_says(why)}", now, limit):
            found.append(device_id)
    return tuple(found)


def is_quarantined(session: Session, device_id: str) -> bool:
    """Tell whether a device's uploads count no more."""
    row = session.get(ReputationRow, device_id)
    return row is not None and row.quarantined_at is not None


def with_reputation(session: Session, devices: Collection[DeviceInfo]) -> tuple[DeviceInfo, ...]:
    """Return devices with their reputation."""
    rows = _rows(session, [device.device_id for device in devices])
    return tuple(
        dataclasses.replace(device, conduct=reply(ReputationInfo, rows[device.device_id]))
        if device.device_id in rows
        else device
        for device in devices
    )


def _rows(session: Session, device_ids: Sequence[str]) -> dict[str, ReputationRow]:
    found: dict[str, ReputationRow] = {}
    for batch in batches(device_ids):
        rows = session.scalars(select(ReputationRow).where(ReputationRow.device_id.in_(batch)))
        found |= {row.device_id: row for row in rows}
    return found


def reputation_of(session: Session, device_id: str) -> ReputationRow:
    """Return the row of a device that there is."""
    return session.get(ReputationRow, device_id) or _new_row(session, device_id)


def _new_row(session: Session, device_id: str) -> ReputationRow:
    row = ReputationRow(device_id=device_id, counted=0, screened=0, refused=0, suspicion=0)
    session.add(row)
    return row


def _suspect(
    session: Session, row: ReputationRow, why: Mapping[str, Any], said: str, now: float, limit: int = SUSPICION
) -> bool:
    """Note an upload that did not count; return whether that put the device in quarantine."""
    row.suspicion = suspicion_after(row.suspicion, why)
    if row.suspicion < limit or row.quarantined_at is not None:
        return False
    times = f"{row.screened} of its uploads stood out, {row.refused} were refused, {row.counted} counted"
    put_in_quarantine(session, row, f"{times}; {said}", now, SERVER)
    return True


def put_in_quarantine(session: Session, row: ReputationRow, reason: str, now: float, by: Actor) -> None:
    """Let a device's uploads count no more until somebody releases it."""
    row.quarantined_at, row.reason = now, reason[:_REASON_LENGTH]
    audit(session, "device_quarantined", by, now, device_id=row.device_id, reason=row.reason)


def _says(why: Mapping[str, Any]) -> str:
    far = [f"{name} {distance:g}" for name, distance in why.get("distances", {}).items()]
    parts = [f"distance from the fleet's median, in medians: {', '.join(far)}"] if far else []
    parts += ["of the sum of its group"] if why.get("group") is not None else []
    parts += ["it points away from the others"] if why.get("against") else []
    return "; ".join(parts)
