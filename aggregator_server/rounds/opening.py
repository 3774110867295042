"""Opening a round: its row, and the devices that are selected for it.

After a round of the fleet whose plan says so, each group's rounds follow by themselves: the first goes on from the
fleet's round, each next one from the group's last. The next round opens in the transaction that closes the one before,
so the phase survives any crash.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import func, insert
from sqlalchemy import select as select_rows
from sqlalchemy.orm import Session

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.devices import device_names
from aggregator_server.fleet.health import count_devices
from aggregator_server.fleet.publications import current_model, current_version, with_network
from aggregator_server.rounds.candidates import read_columns, read_history, read_statistics, write_seen
from aggregator_server.rounds.history import Group, kept_state, schedule_of, starting_point
from aggregator_server.rounds.plan import make_plan, parsed_plan
from aggregator_server.rounds.private.stages import begin
from aggregator_server.rounds.queries import is_done, newest_done, require_no_open_round
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.selection.draw import are_there, data_sizes, select
from aggregator_server.store.expressions import batches
from aggregator_server.store.store import Store
from aggregator_server.store.tables import IS_ACTIVE, OPEN, PARTICIPANTS, DeviceRow, RoundRow
from aggregator_server.strategies.registry import FleetKind, recommended
from aggregator_server.strategies.registry import strategy as lookup
from aggregator_server.strategies.strategy import Strategy, unchanged
from fleet_protocol.bundle.bundle_file import shipped_manifest
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.methods.personalisations import personalisations
from fleet_protocol.secure_sums.bounded_sums import drowns
from fleet_protocol.secure_sums.privacy_budget import epsilon_of, spent_by
from fleet_protocol.secure_sums.roster import smallest_group

_NAMED = 50  # devices that a round leaves out


def open_round(store: Store, request: RoundRequest, now: float, by: Actor = SERVER) -> int:
    """Open a round with the devices enrolled now; return its number. Raises RefusedError: one is open, or cannot be."""
    write_seen(store)
    with store.writing() as session:
        if request.strategy == RECOMMENDED:
            request = recommended(request, fleet_kind(session))
        chosen = lookup(request.strategy)
        plan = make_plan(request, chosen)
        require_no_open_round(session, "; wait for it, or cancel it with DELETE /v1/rounds/{}")
        row = _insert_round(session, chosen, plan, request.new_classes, now)
        audit(session, "round_opened", by, now, round_id=row.round_id, strategy=row.strategy)
        return row.round_id


def _insert_round(
    session: Session, how: Strategy, plan: RoundPlan, new_classes: int | None, now: float, group: Group | None = None
) -> RoundRow:
    """Open a round of a group, or of the fleet; no other may be open.

    ``new_classes``: how many there are among the reports, where it is known. Raises RefusedError: there is nothing to
    score, or nobody to do it, or the public set or the shared model is not what the strategy needs.
    """
    public_set = current_version(session)
    if public_set is None:
        raise RefusedError("no_public_set", "there is no public set yet; publish one with `auricle-aggregator publish`")
    if how.needs_embeddings and not public_set.settings.is_embedding:
        raise RefusedError(
            "invalid_plan",
            f"strategy {how.name!r} compares embeddings of one network, and the public set's features are "
            f"{public_set.settings.describe()}; publish a public set with the features of a pretrained front end, such "
            "as base",
        )
    follows, index = (None, None) if group is None else (group.follows, group.index)
    start = starting_point(session, group) if how.shares_model else (None, None, kept_state(session, how.name))
    version, weights, state = start
    plan = _with_statistics(plan, public_set.settings)
    if how.prepare is not unchanged:  # else it needs none of the statistics
        local = how.prepare(plan.local, read_statistics(session), len(all_classes(session)))
        plan = replace(plan, local=local)
    newest = newest_done(session)
    row = RoundRow(
        state=OPEN,
        strategy=how.name,
        plan=asdict(plan),
        new_classes=new_classes,
        opened_at=now,
        deadline_at=now + plan.deadline_s,
        public_set=public_set.sha256,
        consensus=None if newest is None else newest.result_consensus,
        model_version=version,
        weights=weights,
        server_state=state,
        prototypes=None if newest is None else newest.result_prototypes,
        follows=follows,
        group_index=index,
        details={},
    )
    session.add(row)
    session.flush()
    selected = _of_fleet(session, row, plan, now) if group is None else _of_group(session, plan, group, now)
    statement, connection = insert(PARTICIPANTS), session.connection()
    for batch in batches(selected):
        chosen = [{"round_id": row.round_id, "device_id": device_id, "metrics": {}} for device_id in batch]
        connection.execute(statement, chosen)
    if plan.private is not None:
        begin(session, row)
    return row


def fleet_kind(session: Session) -> FleetKind:
    """Return what the recommended strategy depends on."""
    public_set, model = current_version(session), current_model(session)
    embeddings = public_set is not None and public_set.settings.is_embedding
    if model is None:
        return FleetKind(embeddings=embeddings, shares_network=False)
    one, other = (
        session.scalar(select_rows(DeviceRow.device_id).where(IS_ACTIVE, condition).limit(1))
        for condition in (with_network(model), ~with_network(model))
    )
    return FleetKind(embeddings=embeddings, shares_network=one is not None and other is None)


def _of_fleet(session: Session, row: RoundRow, plan: RoundPlan, now: float) -> tuple[str, ...]:
    candidates = read_columns(session, now, private=plan.private is not None)
    selected = select(candidates, plan.selection, read_history(session, row.strategy), (plan.seed, row.round_id))
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


def _with_statistics(plan: RoundPlan, settings: FeatureSettings) -> RoundPlan:
    """Return the plan of a round with noise with what whitens embeddings. Raises RefusedError: nobody knows that."""
    if plan.private is None or not plan.private.noise:
        return plan
    manifest = shipped_manifest(settings.digest)
    if manifest is None:
        raise RefusedError(
            "invalid_plan",
            "a private round with noise needs the statistics of the front end's pretraining, and none that comes with "
            f"Auricle has the public set's features {settings.describe()}; leave epsilon out, or use a public set of "
            "features such as words",
        )
    return replace(plan, private=replace(plan.private, statistics=manifest.statistics_digest))


def _of_group(session: Session, plan: RoundPlan, group: Group, now: float) -> tuple[str, ...]:
    """Return the members of a group that are there; all where none is, so that the group's rounds go on."""
    candidates = read_columns(session, now)
    there = {device_id.decode() for device_id in candidates.device_ids[are_there(candidates, plan.selection)].tolist()}
    return tuple(device_id for device_id in group.members if device_id in there) or tuple(group.members)


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


def open_next_group_round(session: Session, round_id: int, now: float) -> None:
    """Open the next round of a group after a round that was just closed, where there is one."""
    row = session.get_one(RoundRow, round_id)
    fleets = row if row.follows is None else session.get_one(RoundRow, row.follows)
    plan = parsed_plan(fleets.plan)
    groups = personalisations()[plan.personalisation.name].groups
    if groups is None or not is_done(fleets):
        return
    if fleets.groups is None:
        columns = read_columns(session, now)
        ids = (device_id.decode() for device_id in columns.device_ids.tolist())
        sizes = dict(zip(ids, data_sizes(columns.clips).tolist(), strict=True))
        fleets.groups = asdict(groups(sizes, plan.personalisation.settings))
    planned = schedule_of(fleets)
    finished = session.scalar(select_rows(func.count()).where(RoundRow.follows == fleets.round_id)) or 0
    if finished < len(planned.sequence):
        index = planned.sequence[finished]
        group = Group(fleets.round_id, index, planned.groups[index])
        _insert_round(session, lookup(fleets.strategy), plan, None, now, group)
