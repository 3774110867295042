"""Which round goes on from which: the fleet's rounds in a line, each group's in a branch.

Every published model begins a history of its own: the first round with it starts from the bundle's own weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from aggregator_server.fleet.publications import required_model
from aggregator_server.rounds.plan import parsed_plan
from aggregator_server.rounds.queries import OF_FLEET, newest_done, of_group, open_group_index
from aggregator_server.store.tables import RoundRow
from fleet_protocol.messages.rest import parse
from fleet_protocol.methods.personalisations import Schedule


@dataclass(frozen=True)
class Group:
    """The devices of a round that is not the whole fleet's."""

    follows: int  # number of the fleet's round that the group's rounds go on from
    index: int  # index of the group in that round's schedule
    members: Sequence[str]


def starting_point(session: Session, group: Group | None) -> tuple[int, str | None, str | None]:
    """Return what a new round that shares a model starts from: (version of the model, blob of weights, blob of state).

    The weights are None for the bundle's own; the state, such as a server optimiser's, is None at first. Raises
    RefusedError: no model has been published; the fleet has more classes by now than the model's head has slots.
    """
    last: RoundRow | None
    if group is not None:
        fleets = session.get_one(RoundRow, group.follows)
        version = int(fleets.model_version or 0)
        last = newest_done(session, RoundRow.model_version == version, of_group(group.follows, group.index)) or fleets
    else:
        version = required_model(session).version
        last = newest_with_model(session, version)
    return (version, None, None) if last is None else (version, last.result_weights, last.result_server_state)


def kept_state(session: Session, strategy: str) -> str | None:
    """Return the blob that a strategy without a shared model kept from its last round of the fleet; None at first."""
    newest = newest_done(session, OF_FLEET, RoundRow.strategy == strategy, RoundRow.model_version.is_(None))
    return None if newest is None else newest.result_server_state


def newest_with_model(session: Session, version: int) -> RoundRow | None:
    """Return the newest done round of the whole fleet that trained a version of the shared model."""
    return newest_done(session, OF_FLEET, RoundRow.model_version == version)


def newest_result(session: Session, device_id: str) -> RoundRow | None:
    """Return the newest done round that concerns a device: of the fleet, or of the device's group after it."""
    fleets = newest_done(session, OF_FLEET)
    if fleets is None or fleets.groups is None:
        return fleets
    index = schedule_of(fleets).group_of(device_id)
    return (None if index is None else newest_done(session, of_group(fleets.round_id, index))) or fleets


def schedule_of(fleets: RoundRow) -> Schedule:
    """Return the groups whose rounds follow a round of the fleet; none without group-balanced personalisation."""
    return Schedule((), ()) if fleets.groups is None else parse(Schedule, fleets.groups)


def fine_tuning_due(session: Session, row: RoundRow, device_id: str) -> bool:
    """Tell whether a device that learns from a done round shall fine-tune the result on its own clips.

    Members of a group do so once the rounds of their group are over; rounds of later groups do not matter.
    """
    fleets = row if row.follows is None else session.get_one(RoundRow, row.follows)
    name = parsed_plan(fleets.plan).personalisation.name
    if name == "none":
        return False
    if fleets.groups is None:
        return True
    training = open_group_index(session, fleets.round_id)
    if training is None:
        return True
    planned = schedule_of(fleets)
    index = planned.group_of(device_id)
    return index is None or index < training or planned.rounds[index] == 0
