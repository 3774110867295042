"""Personalisation as rows: after a round of the fleet whose plan says so, each group's rounds follow by themselves.

A group's rounds form a branch of their own: the first goes on from the fleet's round, each next one from the group's
last. The next round opens in the transaction that closes the one before, so the phase survives any crash.
"""

import itertools
from dataclasses import asdict

import numpy as np
from sqlalchemy.orm import Session

from aggregator_server.rounds.history import Group, schedule_of
from aggregator_server.rounds.opening import insert_round
from aggregator_server.rounds.plan import is_other, parsed_plan, with_another_network
from aggregator_server.rounds.queries import count_group_rounds, open_group_index, read_columns
from aggregator_server.rounds.states import is_done
from aggregator_server.selection.draw import data_sizes
from aggregator_server.store.tables import RoundRow
from aggregator_server.strategies.registry import strategy
from fleet_protocol.personalisation import personalisations


def open_next_group_round(session: Session, round_id: int, now: float) -> None:
    """Open the next round of a group after a round that was just closed, where there is one."""
    row = session.get_one(RoundRow, round_id)
    fleets = row if row.follows is None else session.get_one(RoundRow, row.follows)
    plan = parsed_plan(fleets.plan)
    groups = personalisations()[plan.personalisation.name].groups
    if groups is None or not is_done(fleets):
        return
    if fleets.groups is None:
        others = with_another_network(session, fleets.model_version) if plan.others else ()
        columns = read_columns(session, now)
        ids = [device_id.decode() for device_id in columns.device_ids.tolist()]
        takes_part = np.array([device_id not in others for device_id in ids], np.bool_)
        own = data_sizes(columns.clips[takes_part]).tolist()
        sizes = dict(zip(itertools.compress(ids, takes_part), own, strict=True))
        fleets.groups = asdict(groups(sizes, plan.personalisation.settings))
    planned = schedule_of(fleets)
    finished = count_group_rounds(session, fleets.round_id)
    if finished < len(planned.sequence):
        index = planned.sequence[finished]
        group = Group(fleets.round_id, index, planned.groups[index])
        insert_round(session, strategy(fleets.strategy), plan, None, now, group)


def fine_tuning_due(session: Session, row: RoundRow, device_id: str) -> bool:
    """Tell whether a device that learns from a done round shall fine-tune the result on its own clips.

    Members of a group do so once the rounds of their group are over; rounds of later groups do not matter. A device
    with another network than the shared model's does not, where the plan has a part for it.
    """
    fleets = row if row.follows is None else session.get_one(RoundRow, row.follows)
    name = parsed_plan(fleets.plan).personalisation.name
    if name == "none" or is_other(session, row, device_id):
        return False
    if fleets.groups is None:
        return True
    training = open_group_index(session, fleets.round_id)
    if training is None:
        return True
    planned = schedule_of(fleets)
    index = planned.group_of(device_id)
    return index is None or index < training or planned.rounds[index] == 0
