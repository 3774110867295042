"""What a device is to do in the present stage of a private round."""

from dataclasses import replace

from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import PrivateGroup
from aggregator_server.rounds.private.groups import read_group
from aggregator_server.store.tables import PrivatePartRow
from fleet_protocol.messages.private_rounds import PrivateStage, PrivateWork
from fleet_protocol.messages.rest import Work


def private_work(
    session: Session, work: Work, stage: PrivateStage, device_id: str, *, has_uploaded: bool
) -> Work | None:
    """Return a device's work for a stage; None where it has answered, or is out of the round.

    ``work``: what all devices get of it.
    """
    part = session.get(PrivatePartRow, (work.round_id, device_id))
    if stage == "keys":
        return replace(work, kind="keys", private=PrivateWork()) if part is None else None
    if part is None or part.group_index is None or part.dropped:
        return None
    is_due = {
        "shares": part.shares is None,
        "contribute": part.shares is not None and not has_uploaded,
        "unmask": has_uploaded and part.revealed is None,
    }
    if not is_due[stage]:
        return None
    group = read_group(session, work.round_id, part.group_index)
    return replace(work, kind=stage, private=_of_stage(group, stage, device_id))


def _of_stage(group: PrivateGroup, stage: PrivateStage, device_id: str) -> PrivateWork:
    if stage == "shares":
        return PrivateWork(members=group.members)
    if stage == "contribute":
        own = {sender: shares[device_id] for sender, shares in group.shares.items() if device_id in shares}
        return PrivateWork(members=group.members, taking_part=group.taking_part, shares=own)
    return PrivateWork(members=group.members, taking_part=group.taking_part, uploaded=group.uploaded)
