"""The work of a device: what it is to do next, and its report that it learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Text, and_, bindparam, cast, insert, select, update
from sqlalchemy.orm import Session

from aggregator_server.errors import RoundNotDoneError
from aggregator_server.fleet.classes import all_classes, as_merged, given_up, merged_classes
from aggregator_server.fleet.devices import STANDING, Standing, require_active
from aggregator_server.fleet.shared_models import model_blob
from aggregator_server.rounds.continuous import has_learned_as_much, is_due
from aggregator_server.rounds.devices.uploads import check_metrics
from aggregator_server.rounds.groups import fine_tuning_due
from aggregator_server.rounds.history import newest_result
from aggregator_server.rounds.others import is_other, plan_for_others
from aggregator_server.rounds.plan import parsed_plan, plan_of_text
from aggregator_server.rounds.queries import newest_of_fleet, no_such_round, open_number
from aggregator_server.rounds.states import is_done, merging
from aggregator_server.store import Store
from aggregator_server.store.tables import (
    PROPOSED,
    AssignmentRow,
    ClassRow,
    ConductRow,
    DeviceRow,
    LearnedRow,
    ParticipantRow,
    RoundRow,
    table_of,
)
from fleet_protocol.messages import ClassAssignment, Learned, MergedClass, Work, WorkKind

_D, _K, _L, _P = table_of(DeviceRow), table_of(ConductRow), table_of(LearnedRow), table_of(ParticipantRow)
_NEWEST, _OPEN = table_of(RoundRow).alias("newest"), table_of(RoundRow).alias("present")
# What decides whether a device has work, in one statement: a fleet that wakes asks it all at once, most of it in vain.
_PLACE = (
    select(
        *(_D.c[name] for name in STANDING),
        _K.c.quarantined_at,
        _NEWEST.c.round_id.label("newest_round"),
        cast(_NEWEST.c.plan, Text).label("plan"),
        merging(_NEWEST).label("newest_merges"),
        _NEWEST.c.groups.is_not(None).label("has_groups"),
        _L.c.personalised,
        _OPEN.c.round_id.label("open_round"),
        merging(_OPEN).label("merges"),
        _OPEN.c.deadline_at,
        and_(_P.c.device_id.is_not(None), _P.c.upload.is_(None)).label("is_asked"),
    )
    .select_from(
        _D.outerjoin(_K, _K.c.device_id == _D.c.device_id)
        .outerjoin(_NEWEST, _NEWEST.c.round_id == newest_of_fleet())
        .outerjoin(_L, and_(_L.c.round_id == _NEWEST.c.round_id, _L.c.device_id == _D.c.device_id))
        .outerjoin(_OPEN, _OPEN.c.round_id == open_number())
        .outerjoin(_P, and_(_P.c.round_id == _OPEN.c.round_id, _P.c.device_id == _D.c.device_id))
    )
    .where(_D.c.device_id == bindparam("of_device"))
)
_A, _C, _R = table_of(AssignmentRow), table_of(ClassRow), table_of(RoundRow)
_REPORT = (
    select(_R.c.state, _L.c.personalised)
    .select_from(_R.outerjoin(_L, and_(_L.c.round_id == _R.c.round_id, _L.c.device_id == bindparam("of_device"))))
    .where(_R.c.round_id == bindparam("of_round"))
    .with_for_update(of=_R)
)
_REPORTED: dict[str, Any] = {name: bindparam(name) for name in ("personalised", "kept_own", "metrics")}
_NOTE = insert(_L).values({"round_id": bindparam("of_round"), "device_id": bindparam("of_device"), **_REPORTED})
_NOTE_AGAIN = (
    update(_L).where(_L.c.round_id == bindparam("of_round"), _L.c.device_id == bindparam("of_device")).values(_REPORTED)
)
_REACHED = (
    update(_A)
    .where(_A.c.device_id == bindparam("of_device"), _A.c.round_id <= bindparam("of_round"))
    .where(_A.c.class_id.not_in(select(_C.c.class_id).where(_C.c.state == PROPOSED)))
    .values(acknowledged=True)
)
_PENDING = (
    select(_A.c.slot, _A.c.class_id)
    .join(_C, _C.c.class_id == _A.c.class_id)
    .where(_A.c.device_id == bindparam("of_device"), _A.c.acknowledged.is_(False), _C.c.state != PROPOSED)
    .order_by(_A.c.slot)
)


@dataclass(frozen=True)
class Look:
    """What a look at a device's rows tells.

    Attributes:
        version: The database's; None where the device has nothing to do.
        work: The device's work, where it is one that other devices have too; None where it must be searched.
    """

    version: int | None = None
    work: Work | None = None


def look(store: Store, device_id: str, now: float) -> Look:
    """Look whether :func:`next_work` may find some. Only the thread of the event loop may call this.

    A fleet asks often, and mostly in vain, or all of it for the same work.

    Raises:
        DeviceRevokedError, DeviceWaitingError: the device may not take part, perhaps since it began to wait.
    """
    store.note_seen(device_id, now)
    place = store.glance(_PLACE, {"of_device": device_id})
    require_active(Standing(*place[: len(STANDING)]))
    learns = _may_learn(place)
    if not learns and not _may_contribute(place, now):
        return Look()
    version = store.version()
    shared = None
    if learns and _is_new(place):
        shared = _kept.find(store, version, "learn", place.newest_round)
    elif not learns and not place.merges:
        shared = _kept.find(store, version, "contribute", place.open_round)
    if shared is None or not _is_same_for_all(shared):
        return Look(version)
    pending = learns and store.glance(_PENDING, {"of_device": device_id}) is not None
    return Look(version, None if pending else shared)


def next_work(store: Store, device_id: str, now: float, version: int | None = None) -> Work | None:
    """Return a device's next work, or None.

    Learning from the newest finished round comes before contributing to the open one: the device then contributes
    from the state that the fleet agreed on, and knows which of its new sounds are classes by now.

    A device in quarantine learns, and is asked for nothing.

    Args:
        store: the fleet's.
        device_id: the device.
        now: seconds since 1970.
        version: the database's, of late; what is the same for all devices is then read once for each version.

    Raises:
        DeviceRevokedError: the device was revoked, perhaps while it waited.
    """
    store.note_seen(device_id, now)
    with store.reading() as session:
        place: Any = session.execute(_PLACE, {"of_device": device_id}).one()
        require_active(Standing(*place[: len(STANDING)]))
        finished = _to_learn(session, device_id, place) if _may_learn(place) else None
        if finished is not None:
            return _work(session, _shared(store, session, version, "learn", finished), device_id)
        open_round = _to_contribute(session, device_id, place, now) if _may_contribute(place, now) else None
        if open_round is not None:
            return _work(session, _shared(store, session, version, "contribute", open_round), device_id)
    return None


def acknowledge(store: Store, device_id: str, learned: Learned) -> None:
    """Note that a device learned from a round: that round's and older assignments have reached it. Idempotent.

    The note holds once the store is flushed.

    Raises:
        RoundNotFoundError: there is no such round.
        RoundNotDoneError: it has no result.
        InvalidRequestError: the metrics cannot be stored.
    """
    check_metrics(learned.metrics)
    with store.writing(durable=False) as session:
        whose = {"of_round": learned.round_id, "of_device": device_id}
        found: Any = session.execute(_REPORT, whose).first()
        if found is None:
            raise no_such_round(learned.round_id)
        if not is_done(found):
            raise RoundNotDoneError(f"round {learned.round_id} is {found.state}, so there is nothing to learn from it")
        if found.personalised is not None and (found.personalised or not learned.personalised):
            return
        reported = {name: getattr(learned, name) for name in _REPORTED}
        session.execute(_NOTE if found.personalised is None else _NOTE_AGAIN, whose | reported)
        session.execute(_REACHED, whose)


def _may_learn(place: Any) -> bool:  # noqa: ANN401  (a row of _PLACE)
    """Tell whether there may be a result that a device has not learned, or not fine-tuned; of groups it is not told."""
    if place.newest_round is None:
        return False
    if place.has_groups or place.personalised is None:
        return True
    return not place.personalised and plan_of_text(place.plan).personalisation.name != "none"


def _is_new(place: Any) -> bool:  # noqa: ANN401  (a row of _PLACE)
    """Tell whether a device has the fleet's newest result to learn, by this row alone."""
    return place.personalised is None and not place.newest_merges and not place.has_groups


def _may_contribute(place: Any, now: float) -> bool:  # noqa: ANN401  (a row of _PLACE)
    """Tell whether the open round may want something of a device; of a series it is not told."""
    if place.open_round is None or place.quarantined_at is not None:
        return False
    return place.merges or bool(place.is_asked and place.deadline_at > now)


def _to_learn(session: Session, device_id: str, place: Any) -> int | None:  # noqa: ANN401  (a row of _PLACE)
    if _is_new(place):
        return int(place.newest_round)
    row = newest_result(session, device_id) if place.has_groups else session.get_one(RoundRow, place.newest_round)
    assert row is not None
    learned = session.get(LearnedRow, (row.round_id, device_id))
    if learned is None and has_learned_as_much(session, row, device_id):
        return None
    if learned is None or (not learned.personalised and fine_tuning_due(session, row, device_id)):
        return row.round_id
    return None


def _to_contribute(session: Session, device_id: str, place: Any, now: float) -> int | None:  # noqa: ANN401
    if place.merges and not is_due(session, session.get_one(RoundRow, place.open_round), device_id, now):
        return None
    return int(place.open_round)


class _Kept:
    """The last few works that were read, without what is a single device's. Any thread may use it."""

    def __init__(self) -> None:
        self._works: dict[tuple[Store, int, WorkKind, int], Work] = {}

    def find(self, store: Store, version: int, kind: WorkKind, round_id: int) -> Work | None:
        return self._works.get((store, version, kind, round_id))

    def keep(self, store: Store, version: int, work: Work) -> None:
        self._works = {**dict(list(self._works.items())[-3:]), (store, version, work.kind, work.round_id): work}


_kept = _Kept()


def _shared(store: Store, session: Session, version: int | None, kind: WorkKind, round_id: int) -> Work:
    """Return what is the same for all devices of the work for a round."""
    found = None if version is None else _kept.find(store, version, kind, round_id)
    if found is None:
        found = _read(session, kind, round_id)
        if version is not None:
            _kept.keep(store, version, found)
    return found


def _is_same_for_all(shared: Work) -> bool:
    """Tell whether every device gets the same, but for what became of its own new sounds."""
    plan = shared.plan
    return plan.others is None and (shared.kind == "contribute" or plan.personalisation.name == "none")


def _read(session: Session, kind: WorkKind, round_id: int) -> Work:
    row, learning = session.get_one(RoundRow, round_id), kind == "learn"
    return Work(
        kind=kind,
        round_id=round_id,
        plan=parsed_plan(row.plan),
        public_set=str(row.result_public_set if learning else row.public_set),
        consensus=row.result_consensus if learning else row.consensus,
        classes=all_classes(session),
        model=model_blob(session, row.model_version),
        weights=row.result_weights if learning else row.weights,
        prototypes=row.result_prototypes if learning else row.prototypes,
        fleet_weights=session.get_one(RoundRow, row.follows).result_weights if learning and row.follows else None,
        merged=as_merged(merged_classes(session)),
        retired=given_up(session),
    )


def _work(session: Session, shared: Work, device_id: str) -> Work:
    """Return a device's work, from what is the same for all."""
    learning, plan = shared.kind == "learn", shared.plan
    pending = _pending(session, device_id, shared.merged) if learning else ()
    work = replace(shared, assignments=pending) if pending else shared
    if _is_same_for_all(shared):
        return work
    row = session.get_one(RoundRow, shared.round_id)
    work = replace(work, fine_tune=learning and fine_tuning_due(session, row, device_id))
    if plan.others is None or not _is_other(session, shared.kind, row, device_id):
        return work
    return replace(work, plan=plan_for_others(plan, plan.others), model=None, weights=None, fleet_weights=None)


def _is_other(session: Session, kind: WorkKind, row: RoundRow, device_id: str) -> bool:
    """Tell whether a device does the plan's part for others: as it was asked, or to learn as its network allows now."""
    if kind == "contribute":
        return session.get_one(ParticipantRow, (row.round_id, device_id)).other
    return is_other(session, row, device_id)


def _pending(session: Session, device_id: str, merged: Sequence[MergedClass]) -> tuple[ClassAssignment, ...]:
    """Return what a device has not been told of its new sounds; nothing of classes that wait for an operator."""
    rows: Iterable[Any] = session.execute(_PENDING, {"of_device": device_id})
    present = {item.class_id: item.into for item in merged}
    return tuple(ClassAssignment(slot, present.get(class_id, class_id)) for slot, class_id in rows)
