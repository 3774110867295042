"""Rolling the fleet back to the state after a round, as that was or without what some devices uploaded for it.

Rounds after it stay in the list as undone: nothing goes on from them, and an undone round can be restored in turn.
"""

import dataclasses
import logging
from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from aggregator_server.errors import AggregationError, InvalidRequestError, RoundNotDoneError, UploadsGoneError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes, classes_in_state, set_columns
from aggregator_server.fleet.shared_models import model_blob
from aggregator_server.rounds.computation import compute_here
from aggregator_server.rounds.queries import require_round
from aggregator_server.rounds.result import Compute, StoredResult, apply_result
from aggregator_server.rounds.retention import remove_left_uploads
from aggregator_server.rounds.snapshot import RoundSnapshot, read_class_terms, revoked_devices
from aggregator_server.rounds.states import COUNTS, is_done
from aggregator_server.store import Store
from aggregator_server.store.tables import (
    ACTIVE,
    MERGED,
    OPEN,
    PROPOSED,
    REJECTED,
    UNDONE,
    AssignmentRow,
    ClassRow,
    OperationRow,
    ParticipantRow,
    RoundRow,
)
from aggregator_server.undo.operations import RESULTS, STARTS, ensure_no_open_round, insert_operation, note_public_set
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet

_log = logging.getLogger(__name__)
_RESTORE = "restore"


def restore_round(
    store: Store, round_id: int, without: Sequence[str], now: float, by: Actor = SERVER, compute: Compute = compute_here
) -> int:
    """Bring back the fleet's state after a round; return the number of the round that does so.

    Public set, consensus, weights, prototypes and classes are as they were then. Classes of later rounds are undone:
    devices report their sounds again. A name that a person gave since stays.

    Args:
        round_id: Number of a finished round of the whole fleet.
        without: devices without whose uploads the round's result is computed again.

    Raises:
        RoundNotFoundError: there is no such round.
        RoundNotDoneError: it has no result, or is a group's.
        InvalidRequestError: one of the devices did not upload for it, or no other did.
        UploadsGoneError: uploads that are needed are no longer kept.
        RoundOpenError: a round is open.
        AggregationError: the uploads that are left cannot be combined.
        BlobError: a blob is missing or damaged.
    """
    while True:
        with store.reading() as session:
            based_on = _require_restorable(session, round_id)
            last = _last_round(session)
            snapshot = _snapshot(store, session, based_on, without, last + 1) if without else None
        blob = str(based_on.result_public_set) if snapshot is None else based_on.public_set
        public_set = PublicSet.unpack(store.blobs.read(blob))
        result = None if snapshot is None else compute(store.blobs, snapshot)
        if isinstance(result, str):
            raise AggregationError(f"round {round_id} cannot be computed again: {result}")
        with store.writing() as session:
            if _last_round(session) != last:
                continue
            based_on = _require_restorable(session, round_id)
            ensure_no_open_round(session)
            if snapshot is None or result is None:
                new = _as_it_was(session, based_on, public_set, now)
            else:
                new = _again(session, based_on, public_set, snapshot, result, without, now)
            audit(session, "round_restored", by, now, round_id=new, restores=round_id, without=", ".join(without))
            session.flush()
        if without:
            remove_left_uploads(store)  # theirs among them
        _log.info("round %d restores the state after round %d, without %s", new, round_id, ", ".join(without) or "none")
        return new


def _as_it_was(session: Session, based_on: RoundRow, public_set: PublicSet, now: float) -> int:
    """Make a round's result the fleet's present state."""
    results = {name: getattr(based_on, name) for name in RESULTS}
    row = insert_operation(session, based_on, now, _RESTORE, results, {}, restores=based_on.round_id)
    note_public_set(session, str(based_on.result_public_set), public_set, row.round_id)
    _undo_later(session, based_on.round_id, row.round_id)
    _restore_classes(session, public_set.classes, since=based_on.round_id)
    return row.round_id


def _again(
    session: Session,
    based_on: RoundRow,
    public_set: PublicSet,
    snapshot: RoundSnapshot,
    result: StoredResult,
    without: Sequence[str],
    now: float,
) -> int:
    """Go back to the state before a round, and close it again with fewer uploads, as a round of its own."""
    row = RoundRow(
        state=OPEN,  # within this transaction alone
        strategy=based_on.strategy,
        plan=based_on.plan,
        new_classes=based_on.new_classes,
        opened_at=now,
        model_version=based_on.model_version,
        details={},
        **{name: getattr(based_on, name) for name in STARTS},
    )
    session.add(row)
    session.flush()
    details = {"without_devices": sorted(without)}
    session.add(OperationRow(round_id=row.round_id, what=_RESTORE, restores=based_on.round_id, details=details))
    note_public_set(session, based_on.public_set, public_set, row.round_id)
    _undo_later(session, based_on.round_id - 1, row.round_id)
    _restore_classes(session, public_set.classes, since=based_on.round_id - 1)
    columns = ("device_id", "upload", "uploaded_at", "clips", "metrics", "other")
    left = {upload[0] for upload in snapshot.uploads}
    parts = session.scalars(select(ParticipantRow).where(ParticipantRow.round_id == based_on.round_id)).all()
    copied = [{name: getattr(part, name) for name in columns} for part in parts if part.device_id in left]
    session.execute(insert(ParticipantRow), [part | {"round_id": row.round_id} for part in copied])
    apply_result(session, row.round_id, result, now)
    return row.round_id


def _require_restorable(session: Session, round_id: int) -> RoundRow:
    """Return a round that has a result of the whole fleet."""
    row = require_round(session, round_id)
    if not is_done(row):
        raise RoundNotDoneError(f"round {round_id} is {row.state}, so there is no state after it; restore another")
    if row.follows is not None:
        raise RoundNotDoneError(
            f"round {round_id} is a group's; restore the fleet's round before it, {row.follows}, instead"
        )
    return row


def _last_round(session: Session) -> int:
    return session.scalar(select(func.max(RoundRow.round_id))) or 0


def _snapshot(store: Store, session: Session, row: RoundRow, without: Collection[str], round_id: int) -> RoundSnapshot:
    """Return what the result of a round depended on, without some uploads, under another number."""
    uploads, revoked = _uploads(session, row.round_id), revoked_devices(session)
    strangers = sorted(set(without) - uploads.keys())
    if strangers:
        raise InvalidRequestError(
            f"device {strangers[0]!r} uploaded nothing for round {row.round_id}; devices that did: {', '.join(uploads)}"
        )
    left = [part for device, part in uploads.items() if device not in without and device not in revoked]
    if not left:
        raise InvalidRequestError(
            f"no other device uploaded for round {row.round_id}; restore the round before it instead"
        )
    if not all(store.blobs.exists(upload) for _, upload, _ in left):
        raise UploadsGoneError(
            f"the uploads of round {row.round_id} are no longer kept (--keep-uploads); restore the round before it"
        )
    classes = PublicSet.unpack(store.blobs.read(row.public_set)).classes
    names = {info.class_id: info.name for info in all_classes(session)}
    terms = read_class_terms(session, review=store.review_classes)
    before = {info.class_id for info in classes}
    earlier = _proposed_before(session, row.round_id)
    return RoundSnapshot(
        round_id=round_id,
        strategy=row.strategy,
        plan=row.plan,
        new_classes=row.new_classes,
        deadline_at=0.0,
        public_set=row.public_set,
        consensus=row.consensus,
        selected=len(left),
        uploads=tuple(left),
        classes=tuple(dataclasses.replace(info, name=names.get(info.class_id, info.name)) for info in classes),
        assigned=_assigned_before(session, row.round_id, [part[0] for part in left], before | earlier),
        model=model_blob(session, row.model_version),
        weights=row.weights,
        server_state=row.server_state,
        prototypes=row.prototypes,
        revoked=tuple(sorted({*revoked, *without})) if row.server_state is not None else (),
        class_terms=dataclasses.replace(
            terms, proposed=earlier, merged={name: into for name, into in terms.merged.items() if name not in before}
        ),
    )


def _uploads(session: Session, round_id: int) -> dict[str, tuple[str, str, bool]]:
    """Return (device, blob, whether for the part of others) of what was uploaded for a round, by device in order."""
    rows = select(ParticipantRow.device_id, ParticipantRow.upload, ParticipantRow.other).where(
        ParticipantRow.round_id == round_id, ParticipantRow.upload.is_not(None)
    )
    found = session.execute(rows.order_by(ParticipantRow.device_id))
    return {device_id: (device_id, str(upload), other) for device_id, upload, other in found}


def _proposed_before(session: Session, round_id: int) -> frozenset[str]:
    rows = select(ClassRow.class_id).where(ClassRow.state == PROPOSED, ClassRow.discovered_in < round_id)
    return frozenset(session.scalars(rows))


def _assigned_before(
    session: Session, round_id: int, device_ids: Collection[str], class_ids: Collection[str]
) -> tuple[tuple[str, int, str], ...]:
    """Return (device, slot, class) of reports that were recognised before a round, or given up by an operator."""
    rejected = {*classes_in_state(session, REJECTED)}
    rows = (
        select(AssignmentRow.device_id, AssignmentRow.slot, AssignmentRow.class_id, AssignmentRow.round_id)
        .where(AssignmentRow.device_id.in_(device_ids))
        .order_by(AssignmentRow.device_id, AssignmentRow.slot)
    )
    return tuple(
        (device_id, slot, class_id)
        for device_id, slot, class_id, assigned_in in session.execute(rows)
        if (class_id in class_ids and assigned_in < round_id) or class_id in rejected
    )


def _undo_later(session: Session, round_id: int, by: int) -> None:
    """Let every round after one count no more, but for the operation that does so."""
    later = (RoundRow.round_id > round_id) & (RoundRow.round_id < by)
    session.execute(update(RoundRow).where(later, COUNTS).values(undone_by=by))


def _restore_classes(session: Session, classes: Sequence[ClassInfo], since: int) -> None:
    """Make these classes the fleet's again, and undo the later ones.

    Devices get notice again of their sounds that belong to a restored class. What was recognised as a class
    that is none now is forgotten, so that it is reported again; that of a class which was split is the former's again.
    """
    present = {info.class_id for info in all_classes(session)}
    set_columns(session, classes, UNDONE)
    names = {info.class_id for info in classes}
    later_proposals = (ClassRow.state == PROPOSED) & (ClassRow.discovered_in > since)
    session.execute(update(ClassRow).where(later_proposals).values(state=UNDONE))
    for row in session.scalars(select(ClassRow).where(ClassRow.state == UNDONE, ClassRow.split_from.in_(names))).all():
        row.state, row.merged_into = MERGED, row.split_from
    session.flush()
    undone = select(ClassRow.class_id).where(ClassRow.state == UNDONE)
    session.execute(delete(AssignmentRow).where(AssignmentRow.class_id.in_(undone)))
    back = AssignmentRow.class_id.in_(sorted(names - present))
    session.execute(update(AssignmentRow).where(back).values(acknowledged=False))
    assert not names - set(session.scalars(select(ClassRow.class_id).where(ClassRow.state == ACTIVE)))
