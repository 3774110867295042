"""Merging, splitting, approving, retiring and rejecting classes of the fleet."""

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.orm import Session

from aggregator_server.discovery.new_classes import free_class_id
from aggregator_server.errors import InvalidRequestError, LastClassError, TooManyClassesError
from aggregator_server.fleet.audit import SERVER, Actor, What, audit
from aggregator_server.fleet.classes import all_classes, identifiers, require_class, require_free_name, set_columns
from aggregator_server.fleet.shared_models import model_blob
from aggregator_server.names import check_name, unique_name
from aggregator_server.rounds.result import ROWS
from aggregator_server.rounds.snapshot import read_class_terms
from aggregator_server.store import Store
from aggregator_server.store.tables import ACTIVE, MERGED, PROPOSED, REJECTED, RETIRED, ClassRow, RoundRow
from aggregator_server.undo.columns import (
    ClassChange,
    changed_consensus,
    changed_head,
    changed_prototypes,
    changed_public_set,
)
from aggregator_server.undo.operations import ensure_no_open_round, insert_operation, lines, note_public_set
from aggregator_server.undo.reports import move_reports, rows_by_reports
from fleet_protocol.bundle import unpack_bundle
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet, pack_consensus, unpack_consensus
from fleet_protocol.tensors import pack, unpack

_log = logging.getLogger(__name__)
_AUDITED: dict[str, What] = {
    "approve": "class_approved",
    "merge": "class_merged",
    "retire": "class_retired",
    "split": "class_split",
}
# (session, the fleet's classes) -> the change. It reads only.
Plan = Callable[[Session, tuple[ClassInfo, ...]], ClassChange]
# (session, number of the operation) -> None: what else changes with the classes.
Effects = Callable[[Session, int], None]


def remove_class(store: Store, class_id: str, now: float, by: Actor = SERVER) -> None:
    """Retire a class of the fleet, or reject one that waits for an operator.

    Its rows leave the public set, its output the shared model's head. Devices that only adopted it lose it. A label
    with clips stays its owner's, and is not reported again.

    Raises:
        ClassNotFoundError: there is no such class.
        RoundOpenError, RoundNotDoneError, LastClassError: it cannot be retired now.
    """
    with store.writing() as session:
        row = require_class(session, class_id, ACTIVE, PROPOSED)
        if row.state == PROPOSED:
            row.state = REJECTED
            audit(session, "class_rejected", by, now, class_id=class_id, name=row.name)
            return

    def plan(_session: Session, classes: tuple[ClassInfo, ...]) -> ClassChange:
        return _of([info for info in classes if info.class_id != class_id])

    _change(store, now, by, "retire", plan, lambda *_: None, {"class_id": class_id})


def merge_class(store: Store, class_id: str, into: str, now: float, by: Actor = SERVER) -> None:
    """Make a class one with another, which keeps its identifier and name.

    Raises:
        ClassNotFoundError: one of them is no class of the fleet.
        InvalidRequestError: both are the same.
        RoundOpenError, RoundNotDoneError: they cannot be merged now.
    """
    if class_id == into:
        raise InvalidRequestError(f"class {class_id!r} cannot be merged into itself; name another class")

    def merged(session: Session, _operation: int = 0) -> None:
        row = session.get_one(ClassRow, class_id)
        row.state, row.merged_into = MERGED, into

    with store.writing() as session:
        require_class(session, into, ACTIVE)
        if require_class(session, class_id, ACTIVE, PROPOSED).state == PROPOSED:
            merged(session)
            audit(session, "class_merged", by, now, class_id=class_id, into=into)
            return

    def plan(_session: Session, classes: tuple[ClassInfo, ...]) -> ClassChange:
        left = [info for info in classes if info.class_id != class_id]
        return _of(left, {into: (into, class_id)})

    _change(store, now, by, "merge", plan, merged, {"class_id": class_id, "into": into})


def approve_class(store: Store, class_id: str, now: float, by: Actor = SERVER) -> None:
    """Make a class that waits for an operator one of the fleet's.

    Raises:
        ClassNotFoundError: no such class waits.
        RoundOpenError, TooManyClassesError: it cannot be approved now.
        BlobError: what was kept of it is missing or damaged.
    """

    def plan(session: Session, classes: tuple[ClassInfo, ...]) -> ClassChange:
        row = require_class(session, class_id, PROPOSED)
        arrays, _ = unpack(store.blobs.read(str(row.proposal)))
        rows = arrays.pop(ROWS)
        info = ClassInfo(class_id, unique_name(row.name, [other.name for other in classes]), row.discovered_in)
        change = _of([*classes, info], {class_id: ()}, rows={class_id: rows})
        return dataclasses.replace(change, columns={class_id: arrays})

    _change(store, now, by, "approve", plan, lambda *_: None, {"class_id": class_id})


def split_class(
    store: Store, class_id: str, device_ids: Sequence[str], name: str, now: float, by: Actor = SERVER
) -> str:
    """Move what some devices reported as a class to a new class, and return that one's identifier.

    Rows of the public set are made of the reports again, where the uploads are still kept; else the new class has none
    until its devices contribute.

    Raises:
        ClassNotFoundError: there is no such class.
        ClassNameTakenError: another class has the name.
        InvalidRequestError: the name cannot be stored, or one of the devices reported nothing that became the class.
        RoundOpenError, RoundNotDoneError, TooManyClassesError: it cannot be split now.
    """
    check_name(name, "a class's name")
    with store.reading() as session:
        require_class(session, class_id, ACTIVE)
        require_free_name(session, name, "")
        new = free_class_id(identifiers(session))

    def plan(session: Session, classes: tuple[ClassInfo, ...]) -> ClassChange:
        origin = next(info for info in classes if info.class_id == class_id)
        reported_in, rows = rows_by_reports(store, session, origin, device_ids, new)
        return _of([*classes, ClassInfo(new, name, reported_in)], {new: (class_id,)}, rows=rows)

    def moved(session: Session, operation: int) -> None:
        session.get_one(ClassRow, new).split_from = class_id
        move_reports(session, class_id, device_ids, new, operation)

    details = {"class_id": class_id, "new": new, "devices": list(device_ids)}
    _change(store, now, by, "split", plan, moved, details)
    return new


def _of(
    classes: Sequence[ClassInfo], sources: dict[str, tuple[str, ...]] | None = None, rows: dict[str, Any] | None = None
) -> ClassChange:
    """Return a change after which these are the classes, each made of itself where ``sources`` says nothing else."""
    made_of = {info.class_id: (info.class_id,) for info in classes} | (sources or {})
    return ClassChange(tuple(classes), tuple(made_of[info.class_id] for info in classes), rows or {})


def _change(
    store: Store, now: float, by: Actor, operation: str, plan: Plan, effects: Effects, details: dict[str, Any]
) -> None:
    """Change the fleet's classes; another change that comes between is taken into account."""
    while True:
        with store.reading() as session:
            based_on, classes = lines(session), all_classes(session)
            change = plan(session, classes)
            _require_room(session, classes, change)
            models = [model_blob(session, row.model_version) for row in based_on]
        public_set, stored = _store(store, based_on, models, classes, change)
        with store.writing() as session:
            present = lines(session)
            if [row.round_id for row in present] != [row.round_id for row in based_on]:
                continue
            if all_classes(session) != classes:
                continue
            ensure_no_open_round(session)
            for row, results in zip(present, stored, strict=True):
                inserted = insert_operation(session, row, now, operation, results, details)
            note_public_set(session, str(inserted.result_public_set), public_set, inserted.round_id)
            set_columns(session, change.classes, RETIRED)
            effects(session, inserted.round_id)
            audit(session, _AUDITED[operation], by, now, **_flat(details), round_id=inserted.round_id)
            session.flush()
        _log.info("%s: %s", operation, details)
        return


def _flat(details: dict[str, Any]) -> dict[str, str]:
    return {name: ", ".join(value) if isinstance(value, list) else str(value) for name, value in details.items()}


def _require_room(session: Session, before: Sequence[ClassInfo], change: ClassChange) -> None:
    """Check that the fleet may have so many classes."""
    most = read_class_terms(session).max_classes
    if not change.classes:
        raise LastClassError(f"{before[0].class_id!r} is the fleet's only class; a fleet needs one")
    if len(before) < len(change.classes) and len(change.classes) > most:
        raise TooManyClassesError(
            f"the fleet has {len(before)} classes and may have {most}; retire one first, or publish a model that was "
            "built with a larger --capacity"
        )


def _store(
    store: Store,
    based_on: Sequence[RoundRow],
    models: Sequence[str | None],
    classes: tuple[ClassInfo, ...],
    change: ClassChange,
) -> tuple[PublicSet, list[dict[str, str | None]]]:
    """Put the fleet's arrays after a change on disk; return the public set, and the results' blobs of each round."""
    newest, before = based_on[-1], [info.class_id for info in classes]
    public_set, kept = changed_public_set(PublicSet.unpack(store.blobs.read(str(newest.result_public_set))), change)
    if public_set.synthetic.all():
        raise LastClassError("the public set would be left without a recording; a fleet needs one")
    shared: dict[str, str | None] = {"result_public_set": store.blobs.put(public_set.pack())}
    if newest.result_consensus is not None:
        scores, _ = unpack_consensus(store.blobs.read(newest.result_consensus))
        changed = changed_consensus(scores, before, change, kept, len(public_set.labels))
        shared["result_consensus"] = store.blobs.put(pack_consensus(changed, public_set.class_ids))
    if newest.result_prototypes is not None:
        prototypes = FleetPrototypes.unpack(store.blobs.read(newest.result_prototypes))
        shared["result_prototypes"] = store.blobs.put(changed_prototypes(prototypes, change).pack())
    return public_set, [
        shared | _store_weights(store, row, model, before, change) for row, model in zip(based_on, models, strict=True)
    ]


def _store_weights(
    store: Store, row: RoundRow, model: str | None, before: Sequence[str], change: ClassChange
) -> dict[str, str | None]:
    """Put a line's weights after a change on disk. A server optimiser starts anew: its moments have the old columns."""
    if model is None:
        return {}
    if row.result_weights is None:
        return {"result_server_state": None}
    bundle = unpack_bundle(store.blobs.read(model), f"model {model}")
    weights, _ = unpack(store.blobs.read(row.result_weights))
    head = bundle.manifest.head.weights
    shapes = {name: weights[name].shape[:-1] for name in head}
    fitting = {
        class_id: {name: columns[name].reshape(shape) for name, shape in shapes.items()}
        for class_id, columns in change.columns.items()
        if all(name in columns and columns[name].size == math.prod(shape) for name, shape in shapes.items())
    }
    changed = changed_head(weights, bundle.weights, head, before, dataclasses.replace(change, columns=fitting))
    document = {"model": model, "classes": [info.class_id for info in change.classes]}
    return {"result_weights": store.blobs.put(pack(changed, document)), "result_server_state": None}
