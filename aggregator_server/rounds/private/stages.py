"""The stages of a private round: how it goes from one to the next, and which groups go on.

A stage ends when every device that it waits for has answered, or when its share of the round's time has passed. A step
reads rows and writes rows, in one transaction: whoever is killed within it has changed nothing.
"""

import random
from collections import Counter
from collections.abc import Collection

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import PrivateGroup
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.rounds.plan import parsed_plan
from aggregator_server.rounds.private.deal import deal
from aggregator_server.rounds.private.groups import read_groups, roster_of
from aggregator_server.store.tables import DeviceRow, PrivatePartRow, PrivateRoundRow, RoundRow, table_of
from fleet_protocol.messages.private_rounds import PrivateStage
from fleet_protocol.secure_sums.roster import Roster, smallest_group

_NEXT: dict[PrivateStage, PrivateStage] = {"keys": "shares", "shares": "contribute", "contribute": "unmask"}
LAST: PrivateStage = "unmask"
_SHARE_OF_TIME: dict[PrivateStage, float] = {"keys": 1 / 4, "shares": 1 / 2, "contribute": 7 / 8, "unmask": 1.0}
_OWN_KEYS = ("signing_key", "mask_key", "share_key")
_PARTS = table_of(PrivatePartRow)
_SEAT = (
    update(_PARTS)
    .where(_PARTS.c.round_id == bindparam("of_round"), _PARTS.c.device_id == bindparam("of_device"))
    .values(group_index=bindparam("index"), place=bindparam("at_place"))
)


def begin(session: Session, row: RoundRow) -> None:
    """Put a round that was just opened into its first stage."""
    session.add(PrivateRoundRow(round_id=row.round_id, stage="keys", ends_at=_ends_at(row, "keys"), dropped={}))


def move(session: Session, row: RoundRow) -> str | None:
    """Put the open round, whose stage is over and not the last, into the next; or return why it ends here."""
    progress = session.get_one(PrivateRoundRow, row.round_id)
    stage = progress.stage
    reason = _deal(session, row) if stage == "keys" else _drop(session, row, progress)
    progress.stage = _NEXT[stage]
    progress.ends_at = _ends_at(row, progress.stage)
    return reason


def forget(session: Session, round_id: int) -> None:
    """Remove what devices sent for the stages of a round that ends."""
    for kind in (PrivatePartRow, PrivateRoundRow):
        session.execute(delete(kind).where(kind.round_id == round_id))


def _ends_at(row: RoundRow, stage: PrivateStage) -> float:
    deadline = float(row.deadline_at or 0.0)  # an open round has one
    return row.opened_at + _SHARE_OF_TIME[stage] * (deadline - row.opened_at)


def _deal(session: Session, row: RoundRow) -> str | None:
    """Deal who sent keys into groups, or return why that cannot be."""
    private = parsed_plan(row.plan).private
    assert private is not None
    sent = (
        select(PrivatePartRow)
        .join(DeviceRow, DeviceRow.device_id == PrivatePartRow.device_id)
        .where(PrivatePartRow.round_id == row.round_id, DeviceRow.revoked_at.is_(None))
        .where(DeviceRow.device_id.not_in(QUARANTINED))
    )
    keys_of = {part.device_id: part.keys for part in session.scalars(sent.order_by(PrivatePartRow.device_id))}
    # Devices that share a key are one, or copies of one: no device would deal with them.
    times = Counter(keys[name] for keys in keys_of.values() for name in _OWN_KEYS)
    present = [one for one, keys in keys_of.items() if all(times[keys[name]] == 1 for name in _OWN_KEYS)]
    needed = smallest_group(private.group_size)
    if len(present) < needed:
        return f"too few devices for a group: {len(present)} sent keys of their own, {needed} were needed"
    dealt = deal(present, private.group_size, random.SystemRandom())
    seats = [
        {"of_round": row.round_id, "of_device": device_id, "index": index, "at_place": place}
        for index, group in enumerate(dealt)
        for place, device_id in enumerate(group)
    ]
    session.connection().execute(_SEAT, seats)
    return None


def _drop(session: Session, row: RoundRow, progress: PrivateRoundRow) -> str | None:
    """Drop the groups whose secrets could not be put together any more; return why none is left, if none is."""
    found, dropped = read_groups(session, row.round_id), dict(progress.dropped)
    for group in found:
        present = group.taking_part if progress.stage == "shares" else group.uploaded
        if group.dropped is None and _lacks_holders(roster_of(session, row, group.members), group, present):
            what = "sent shares" if progress.stage == "shares" else "uploaded"
            dropped[str(group.index)] = f"{len(present)} of {len(group.members)} devices {what}"
            gone = (PrivatePartRow.round_id == row.round_id) & (PrivatePartRow.group_index == group.index)
            session.execute(update(PrivatePartRow).where(gone).values(dropped=True))
    progress.dropped = dropped
    if len(dropped) < len(found):
        return None
    reasons = "; ".join(f"group {int(index) + 1}: {why}" for index, why in sorted(dropped.items())[:8])
    return f"too many devices were lost for any group's sum ({reasons})"


def _lacks_holders(roster: Roster, group: PrivateGroup, present: Collection[str]) -> bool:
    """Tell whether fewer are present than its sum needs, or of a secret's holders than can put it together."""
    there = set(present)
    return len(there) < roster.fewest or any(
        len(there.intersection(roster.holders(device_id))) < roster.threshold(device_id)
        for device_id in group.taking_part
    )
