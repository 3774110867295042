"""The devices of a new round: who may take part, what they reported, how rounds went, and who is selected."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.input_bounds import capped_sizes
from aggregator_server.errors import RefusedError
from aggregator_server.fleet.devices import device_names
from aggregator_server.fleet.health import count_devices
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.limits import LABEL_ENTROPY, SELECTION_CAP
from aggregator_server.rounds.queries import COUNTS, OF_FLEET, WITH_DEVICES
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow, RoundRow, SigningKeyRow
from aggregator_server.strategies.selection import Columns, History, are_there
from aggregator_server.strategies.selection import select as draw
from aggregator_server.strategies.strategy import DeviceStatistics
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.secure_sums.bounded_sums import drowns
from fleet_protocol.secure_sums.privacy_budget import epsilon_of, spent_by
from fleet_protocol.secure_sums.roster import smallest_group

_READ = 10_000  # rows at a time
_NAMED = 50  # devices that a round leaves out
# In no order: to read a large table in that of its identifiers takes many times as long as to sort these.
_CANDIDATES = select(DeviceRow.device_id, DeviceRow.clips, DeviceRow.seen_at).where(
    IS_ACTIVE, DeviceRow.device_id.not_in(QUARANTINED)
)


def read_columns(session: Session, now: float, *, private: bool = False) -> Columns:
    """Return the devices that may take part, in private rounds if so, not those in quarantine; read part by part."""
    ids, numbers = [np.empty(0, "S32")], [np.empty((0, 2))]
    with_key = DeviceRow.device_id.in_(select(SigningKeyRow.device_id))
    candidates = _CANDIDATES.where(with_key) if private else _CANDIDATES
    for part in session.execute(candidates, execution_options={"yield_per": _READ}).partitions():
        ids.append(np.array([row[0].encode() for row in part], "S32"))
        numbers.append(np.array([(row[1], row[2]) for row in part], np.float64))
    all_ids = np.concatenate(ids)
    order = np.argsort(all_ids)
    clips, seen_at = np.concatenate(numbers)[order].T
    return Columns(all_ids[order], clips, np.maximum(0.0, now - seen_at))


def read_history(session: Session, strategy: str) -> History:
    """Return how the strategy's rounds with the whole fleet went; failed rounds, and those of groups, do not count."""
    done = select(RoundRow.training_loss).where(COUNTS, OF_FLEET, WITH_DEVICES, RoundRow.strategy == strategy)
    losses = session.scalars(done.order_by(RoundRow.round_id)).all()
    return History(len(losses), tuple(loss for loss in losses if loss is not None))


def read_statistics(session: Session) -> tuple[DeviceStatistics, ...]:
    """Return what the devices reported that are not revoked; devices without a report that can be true are left out."""
    rows = select(DeviceRow.device_id, DeviceRow.clips, DeviceRow.label_entropy).where(
        IS_ACTIVE,
        DeviceRow.clips > 0,
        DeviceRow.label_entropy.between(0.0, LABEL_ENTROPY),
        DeviceRow.device_id.not_in(QUARANTINED),
    )
    # To read a large table in the order of its identifiers takes many times as long as to sort its rows.
    reported = sorted(session.execute(rows), key=itemgetter(0))
    clips = capped_sizes(np.array([row.clips for row in reported], np.float64), SELECTION_CAP)
    return tuple(
        DeviceStatistics(row.device_id, int(count), float(row.label_entropy or 0.0))
        for row, count in zip(reported, clips, strict=True)
    )


def select_of_fleet(session: Session, row: RoundRow, plan: RoundPlan, now: float) -> tuple[str, ...]:
    """Return the devices of a round of the whole fleet; its row is told which it leaves out.

    Raises RefusedError: there are none, or too few for a private round.
    """
    candidates = read_columns(session, now, private=plan.private is not None)
    selected = draw(candidates, plan.selection, read_history(session, row.strategy), (plan.seed, row.round_id))
    if plan.private is not None:
        _require_group(session, plan.private, len(selected), len(candidates.device_ids))
        _require_above_noise(plan.private, len(selected))
    if not selected:
        raise RefusedError("no_devices", _why_nobody(session, plan, any_may=bool(len(candidates.device_ids))))
    away = ~are_there(candidates, plan.selection)
    silence = dict(zip(candidates.device_ids[away].tolist(), candidates.unseen_s[away].tolist(), strict=True))
    row.details = _left_out(session, {device_id.decode(): now - unseen for device_id, unseen in silence.items()})
    return selected


def _require_group(session: Session, private: PrivatePlan, selected: int, able: int) -> None:
    """Check that there are enough devices for a group. Raises RefusedError: there are not; says why."""
    needed = smallest_group(private.group_size)
    if selected >= needed:
        return
    unable = count_devices(session, IS_ACTIVE) - able
    more = f"; {unable} others cannot take part in one: they need the extra `private`" if unable else ""
    raise RefusedError(
        "invalid_plan",
        f"a private round with groups of {private.group_size} needs {needed} devices that are there and can take part "
        f"in one, and {selected} were found{more}. Ask for smaller groups, or for a round that is not private",
    )


def _require_above_noise(private: PrivatePlan, selected: int) -> None:
    """Check that so many devices can be heard through the noise. Raises RefusedError: all of them could not."""
    groups = max(1, selected // private.group_size)
    if private.noise and drowns(private.noise, selected, groups):
        epsilon = epsilon_of(spent_by(private.noise))
        raise RefusedError(
            "invalid_plan",
            f"with epsilon {epsilon:.3g} the noise hides even a sound that all of {selected} devices in {groups} "
            f"group{'' if groups == 1 else 's'} have. Ask for a larger epsilon, for larger groups, or for more devices",
        )


def select_of_group(session: Session, plan: RoundPlan, members: Sequence[str], now: float) -> tuple[str, ...]:
    """Return the members of a group that are there; all where none is, so that the group's rounds go on."""
    candidates = read_columns(session, now)
    there = {device_id.decode() for device_id in candidates.device_ids[are_there(candidates, plan.selection)].tolist()}
    return tuple(device_id for device_id in members if device_id in there) or tuple(members)


def _left_out(session: Session, seen_at: Mapping[str, float]) -> dict[str, Any]:
    """Return for a round's details which devices it leaves out, by when they were last heard of: the latest first."""
    if not seen_at:
        return {}
    first = sorted(seen_at, key=lambda device_id: (-seen_at[device_id], device_id))[:_NAMED]
    names = device_names(session, first)
    named = [{"device_id": one, "name": names[one], "seen_at": seen_at[one]} for one in first]
    return {"left_out": named, "left_out_count": len(seen_at)}


def _why_nobody(session: Session, plan: RoundPlan, *, any_may: bool) -> str:
    """Return why no device can be selected, and the way out; ``any_may``: some may take part, but are away."""
    waiting = count_devices(session, DeviceRow.waiting.is_(True) & DeviceRow.revoked_at.is_(None))
    admit = "on the dashboard's page Fleet, or by `auricle-aggregator devices admit --all`"
    if any_may:
        limit = plan.selection.settings["seen_within_s"]
        more = f" ({waiting} more wait to be admitted: {admit})" if waiting else ""
        return (
            f"no device was heard of in the last {limit:g} s{more}; start `auricle-edge run` on one first, or raise "
            "the selection's seen_within_s"
        )
    if waiting:
        return f"no device may take part yet: {waiting} wait to be admitted; admit them {admit}"
    if shut := count_devices(session, IS_ACTIVE):
        return f"no device may take part: {shut} are in quarantine (`auricle-aggregator devices release NAME`)"
    return "no device has joined; invite one (`auricle-aggregator invite`), and start `auricle-edge run` on it"
