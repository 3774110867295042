"""Which devices of a private round make a group: at random, of those that sent keys of their own."""

import random
from collections import Counter
from collections.abc import Sequence

from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.rounds.plan_rows import parsed_plan
from aggregator_server.store.tables import PARTS, DeviceRow, PrivatePartRow, RoundRow
from fleet_protocol.secure_sums.roster import smallest_group

_OWN_KEYS = ("signing_key", "mask_key", "share_key")
_SEAT = (
    update(PARTS)
    .where(PARTS.c.round_id == bindparam("of_round"), PARTS.c.device_id == bindparam("of_device"))
    .values(group_index=bindparam("index"), place=bindparam("at_place"))
)


def deal(device_ids: Sequence[str], group_size: int, draw: random.Random) -> list[list[str]]:
    """Deal devices at random into groups of ``group_size`` or a few more; into one where there are not so many.

    ``draw``: nobody may foresee it, or a liar could choose its group.
    """
    dealt = list(device_ids)
    draw.shuffle(dealt)
    count = max(1, len(dealt) // group_size)
    return [dealt[index::count] for index in range(count)]


def deal_groups(session: Session, row: RoundRow) -> str | None:
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
