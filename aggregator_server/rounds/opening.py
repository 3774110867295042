"""Opening a round: what it starts from, its row, and the devices that are selected for it.

Every published model begins a history of its own: the first round with it starts from the bundle's own weights.

After a round of the fleet whose plan says so, each group's rounds follow by themselves: the first goes on from the
fleet's round, each next one from the group's last. The next round opens in the transaction that closes the one before,
so the phase survives any crash.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.publications import current_model, current_version, required_model, with_network
from aggregator_server.rounds.participants import read_columns, read_statistics, select_of_fleet, select_of_group
from aggregator_server.rounds.plan_rows import parsed_plan, schedule_of
from aggregator_server.rounds.private.stages import begin
from aggregator_server.rounds.queries import (
    OF_FLEET,
    is_done,
    newest_done,
    newest_with_model,
    of_group,
    require_no_open_round,
)
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.store.expressions import batches
from aggregator_server.store.store import Store
from aggregator_server.store.tables import IS_ACTIVE, OPEN, PARTICIPANTS, DeviceRow, RoundRow
from aggregator_server.strategies.plans import FleetKind, make_plan, recommended
from aggregator_server.strategies.plans import strategy as lookup
from aggregator_server.strategies.selection import data_sizes
from aggregator_server.strategies.strategy import Strategy, unchanged
from fleet_protocol.bundle.bundle_file import shipped_manifest
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.methods.personalisations import personalisations


@dataclass(frozen=True)
class Group:
    """The devices of a round that is not the whole fleet's."""

    follows: int  # number of the fleet's round that the group's rounds go on from
    index: int  # index of the group in that round's schedule
    members: Sequence[str]


def open_round(store: Store, request: RoundRequest, now: float, by: Actor = SERVER) -> int:
    """Open a round with the devices enrolled now; return its number. Raises RefusedError: one is open, or cannot be."""
    store.write_seen()
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
    start = _starting_point(session, group) if how.shares_model else (None, None, _kept_state(session, how.name))
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
    if group is None:
        selected = select_of_fleet(session, row, plan, now)
    else:
        selected = select_of_group(session, plan, group.members, now)
    statement, connection = insert(PARTICIPANTS), session.connection()
    for batch in batches(selected):
        chosen = [{"round_id": row.round_id, "device_id": device_id, "metrics": {}} for device_id in batch]
        connection.execute(statement, chosen)
    if plan.private is not None:
        begin(session, row)
    return row


def _starting_point(session: Session, group: Group | None) -> tuple[int, str | None, str | None]:
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


def _kept_state(session: Session, strategy: str) -> str | None:
    """Return the blob that a strategy without a shared model kept from its last round of the fleet; None at first."""
    newest = newest_done(session, OF_FLEET, RoundRow.strategy == strategy, RoundRow.model_version.is_(None))
    return None if newest is None else newest.result_server_state


def fleet_kind(session: Session) -> FleetKind:
    """Return what the recommended strategy depends on."""
    public_set, model = current_version(session), current_model(session)
    embeddings = public_set is not None and public_set.settings.is_embedding
    if model is None:
        return FleetKind(embeddings=embeddings, shares_network=False)
    one, other = (
        session.scalar(select(DeviceRow.device_id).where(IS_ACTIVE, condition).limit(1))
        for condition in (with_network(model), ~with_network(model))
    )
    return FleetKind(embeddings=embeddings, shares_network=one is not None and other is None)


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
    finished = session.scalar(select(func.count()).where(RoundRow.follows == fleets.round_id)) or 0
    if finished < len(planned.sequence):
        index = planned.sequence[finished]
        group = Group(fleets.round_id, index, planned.groups[index])
        _insert_round(session, lookup(fleets.strategy), plan, None, now, group)
