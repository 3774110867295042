"""Opening a round: its row, and the devices that are selected for it."""

from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace

from sqlalchemy import insert
from sqlalchemy import select as select_rows
from sqlalchemy.orm import Session

from aggregator_server import errors
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.public_sets import current_version
from aggregator_server.fleet.shared_models import current_model, with_network
from aggregator_server.rounds.history import Group, kept_state, starting_point
from aggregator_server.rounds.plan import plan_by, with_another_network
from aggregator_server.rounds.queries import (
    OF_FLEET,
    WITH_DEVICES,
    current_consensus,
    current_prototypes,
    newest_done,
    open_round_id,
    read_columns,
    read_history,
)
from aggregator_server.schemas import RoundRequest
from aggregator_server.selection.draw import select
from aggregator_server.store.expressions import batches
from aggregator_server.store.tables import (
    IS_ACTIVE,
    OPEN,
    DeviceRow,
    ModelRow,
    ParticipantRow,
    PublicSetRow,
    RoundRow,
    table_of,
)
from aggregator_server.strategies.registry import FleetKind, recommended, strategies
from aggregator_server.strategies.registry import strategy as lookup
from aggregator_server.strategies.strategy import Strategy, read_statistics
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.local_method import local_methods
from fleet_protocol.messages import RoundPlan


def open_requested(session: Session, request: RoundRequest, now: float) -> RoundRow:
    """Open a round as somebody asked for it, now or once for a schedule.

    Raises:
        RoundOpenError: another round is open.
        AggregatorError: as :func:`requested_plan` and :func:`insert_round` say.
    """
    chosen, plan = requested_plan(session, request)
    open_id = open_round_id(session)
    if open_id is not None:
        raise errors.RoundOpenError(
            f"round {open_id} is open; wait for it, or cancel it with DELETE /v1/rounds/{open_id}"
        )
    return insert_round(session, chosen, plan, request.new_classes, now)


def requested_plan(session: Session, request: RoundRequest) -> tuple[Strategy, RoundPlan]:
    """Return a request's strategy, and the plan with every setting filled in.

    Raises:
        UnknownStrategyError, InvalidPlanError: the request cannot be met.
        ModelReplacedError: the round would replace devices' own models, and the request does not say so.
    """
    request = recommended(request, fleet_kind(session))
    chosen = lookup(request.strategy)
    plan = plan_by(chosen, request)
    require_agreement(session, chosen, agreed=request.replace_model)
    return chosen, plan


def insert_round(
    session: Session, how: Strategy, plan: RoundPlan, new_classes: int | None, now: float, group: Group | None = None
) -> RoundRow:
    """Open a round; no other may be open.

    Args:
        new_classes: how many there are among the reports, where it is known.
        group: whose round it is; None: the fleet's.

    Raises:
        NoPublicSetError: there is nothing to score.
        NoModelError, ModelTooSmallError: the strategy shares a model, and there is none that would do.
        NoDevicesError: there is nobody to do it.
        InvalidPlanError: the strategy needs embeddings, and the public set has other features.
    """
    public_set = current_version(session)
    if public_set is None:
        raise errors.NoPublicSetError("there is no public set yet; publish one with `auricle-aggregator publish`")
    _require_embeddings(how, public_set)
    follows, index = (None, None) if group is None else (group.follows, group.index)
    start = starting_point(session, group) if how.shares_model else None
    others = with_another_network(session, start.version) if start and plan.others else frozenset[str]()
    plan = _prepared(session, how, plan, others)
    row = RoundRow(
        state=OPEN,
        strategy=how.name,
        plan=asdict(plan),
        new_classes=new_classes,
        opened_at=now,
        deadline_at=now + plan.deadline_s,
        public_set=public_set.sha256,
        consensus=current_consensus(session),
        model_version=None if start is None else start.version,
        weights=None if start is None else start.weights,
        server_state=kept_state(session, how.name) if start is None else start.server_state,
        prototypes=current_prototypes(session),
        follows=follows,
        group_index=index,
        details={},
    )
    session.add(row)
    session.flush()
    selected = _of_fleet(session, row, plan, now) if group is None else group.members
    statement, connection = insert(table_of(ParticipantRow)), session.connection()
    for batch in batches(selected):
        chosen = [
            {"round_id": row.round_id, "device_id": device_id, "metrics": {}, "other": device_id in others}
            for device_id in batch
        ]
        connection.execute(statement, chosen)
    return row


def fleet_kind(session: Session) -> FleetKind:
    """Return what the recommended strategy depends on."""
    public_set, model = current_version(session), current_model(session)
    return FleetKind(
        embeddings=public_set is not None and are_embeddings(public_set),
        shares_network=model is not None and _is_trained(session, model),
    )


def _is_trained(session: Session, model: ModelRow) -> bool:
    """Tell whether an active device has a shared model's network."""
    found = select_rows(DeviceRow.device_id).where(IS_ACTIVE, with_network(model)).limit(1)
    return session.scalar(found) is not None


def _prepared(session: Session, how: Strategy, plan: RoundPlan, others: AbstractSet[str]) -> RoundPlan:
    """Return a plan whose local parts' settings are those for this fleet."""
    reported, classes = read_statistics(session), len(all_classes(session))
    of_plan = tuple(device for device in reported if device.device_id not in others)
    plan = replace(plan, local=how.prepare(plan.local, of_plan, classes))
    if plan.others is None:
        return plan
    of_others = tuple(device for device in reported if device.device_id in others)
    local = lookup(plan.others.strategy).prepare(plan.others.local, of_others, classes)
    return replace(plan, others=replace(plan.others, local=local))


def are_embeddings(public_set: PublicSetRow) -> bool:
    """Tell whether a public set's features are embeddings of a pretrained front end."""
    return FeatureSettings.from_json(public_set.features).is_embedding


def _require_embeddings(how: Strategy, public_set: PublicSetRow) -> None:
    if how.needs_embeddings and not are_embeddings(public_set):
        settings = FeatureSettings.from_json(public_set.features)
        raise errors.InvalidPlanError(
            f"strategy {how.name!r} compares embeddings of one network, and the public set's features are "
            f"{settings.describe()}; publish a public set with the features of a pretrained front end, such as base"
        )


def _of_fleet(session: Session, row: RoundRow, plan: RoundPlan, now: float) -> tuple[str, ...]:
    candidates, history = read_columns(session, now), read_history(session, row.strategy)
    selected = select(candidates, plan.selection, history, (plan.seed, row.round_id))
    if not len(candidates.device_ids):
        raise errors.NoDevicesError(
            "no device is enrolled, or all are revoked or in quarantine; start `auricle-edge run` on one first"
        )
    if not selected:
        limit = plan.selection.settings["seen_within_s"]
        raise errors.NoDevicesError(
            f"no device was heard of in the last {limit:g} s; start `auricle-edge run` on one first, or raise the "
            "selection's seen_within_s"
        )
    return selected


def require_agreement(session: Session, how: Strategy, *, agreed: bool) -> None:
    """Check that a round replaces no models unasked.

    Where the fleet's last round left every device with a model of its own, the result of a round that shares weights
    takes its place: the device then listens for all classes of the fleet, and accuracies are among all of them.

    Raises:
        ModelReplacedError: it replaces models, and the request does not say so.
    """
    if agreed or not _replaces_models(how):
        return
    last = newest_done(session, OF_FLEET, WITH_DEVICES)
    before = None if last is None else strategies().get(last.strategy)
    if last is None or before is None or _replaces_models(before):
        return
    raise errors.ModelReplacedError(
        f"since round {last.round_id} ({last.strategy}) every device has a model of its own. A round of {how.name!r} "
        "replaces the models of all devices that have the shared model's network: they then listen for all "
        f"{len(all_classes(session))} classes of the fleet, and accuracies are among all of these. If that is meant, "
        'send "replace_model": true (`auricle-aggregator round start --replace-model`)'
    )


def _replaces_models(how: Strategy) -> bool:
    """Tell whether devices that have the shared model's network take over its weights after a round."""
    return how.shares_model and not local_methods()[how.local].any_architecture
