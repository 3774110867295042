"""Merging and retiring classes of the fleet."""

import logging
from collections.abc import Sequence
from typing import Any, Literal

from aggregator_server.errors import InvalidRequestError, RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, What, audit
from aggregator_server.fleet.class_backing import forget_leaving, leaving
from aggregator_server.fleet.classes import all_classes, require_class, set_columns
from aggregator_server.fleet.publications import model_blob
from aggregator_server.operator_changes import class_columns
from aggregator_server.operator_changes.restore_and_undo import WAY_OUT, insert_operation, lines, note_public_set
from aggregator_server.rounds.queries import require_no_open_round
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ACTIVE, MERGED, RETIRED, ClassRow, RoundRow
from fleet_protocol.bundle.bundle_file import unpack_bundle
from fleet_protocol.messages.public_set import PublicSet, pack_consensus, unpack_consensus
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import pack, unpack

_log = logging.getLogger(__name__)
_Operation = Literal["merge", "retire"]
_AUDITED: dict[_Operation, What] = {"merge": "class_merged", "retire": "class_retired"}


def remove_class(store: Store, class_id: str, now: float, by: Actor = SERVER) -> None:
    """Retire a class of the fleet. Raises ClassNotFoundError: there is none. RefusedError: it cannot be retired now.

    Its rows leave the public set, its output the shared model's head. Devices that only adopted it lose it. A label
    with clips stays its owner's, and is not reported again.
    """
    _change(store, now, by, "retire", (class_id,))


def remove_leaving(store: Store, now: float) -> bool:
    """Retire the classes that revoked devices alone sent, in one operation, which can be undone; say whether any were.

    Raises RefusedError: a round is open, or nothing but these classes is there.
    """
    with store.reading() as session:
        class_ids = leaving(session)
    if class_ids:
        _change(store, now, SERVER, "retire", class_ids)
    return bool(class_ids)


def merge_class(store: Store, class_id: str, into: str, now: float, by: Actor = SERVER) -> None:
    """Make a class one with another, which keeps its identifier and name.

    Raises ClassNotFoundError: one of them is no class of the fleet. InvalidRequestError: both are the same.
    RefusedError: they cannot be merged now.
    """
    if class_id == into:
        raise InvalidRequestError(f"class {class_id!r} cannot be merged into itself; name another class")
    _change(store, now, by, "merge", (class_id,), into)


def _change(
    store: Store, now: float, by: Actor, operation: _Operation, class_ids: Sequence[str], into: str | None = None
) -> None:
    """Take classes away, or make one one with another; a change that comes between is taken into account."""
    details: dict[str, Any] = {"class_id": class_ids[0]} if len(class_ids) == 1 else {"class_ids": list(class_ids)}
    details |= {} if into is None else {"into": into}
    while True:
        with store.reading() as session:
            for named in (*([into] if into else ()), *class_ids):
                require_class(session, named, ACTIVE)
            based_on, classes = lines(session), all_classes(session)
            left = tuple(info for info in classes if info.class_id not in class_ids)
            if not left:
                names = ", ".join(map(repr, class_ids))
                raise RefusedError("last_class", f"{names} is all that the fleet knows; a fleet needs one class")
            made_of: dict[str, tuple[str, ...]] = {info.class_id: (info.class_id,) for info in left}
            made_of |= {into: (into, *class_ids)} if into else {}
            change = class_columns.ClassChange(left, tuple(made_of.values()))
            models = [model_blob(session, row.model_version) for row in based_on]
        public_set, stored = _store(store, based_on, models, classes, change)
        with store.writing() as session:
            present = lines(session)
            if [row.round_id for row in present] != [row.round_id for row in based_on]:
                continue
            if all_classes(session) != classes:
                continue
            require_no_open_round(session, WAY_OUT)
            for row, results in zip(present, stored, strict=True):
                inserted = insert_operation(session, row, now, operation, results, details)
            note_public_set(session, str(inserted.result_public_set), public_set, inserted.round_id)
            set_columns(session, change.classes, RETIRED)
            forget_leaving(session, class_ids)
            for class_id in class_ids:
                if into is not None:
                    merged = session.get_one(ClassRow, class_id)
                    merged.state, merged.merged_into = MERGED, into
                about = {"class_id": class_id} | ({} if into is None else {"into": into})
                audit(session, _AUDITED[operation], by, now, **about, round_id=inserted.round_id)
            session.flush()
        _log.info("%s: %s", operation, details)
        return


def _store(
    store: Store,
    based_on: Sequence[RoundRow],
    models: Sequence[str | None],
    classes: tuple[ClassInfo, ...],
    change: class_columns.ClassChange,
) -> tuple[PublicSet, list[dict[str, str | None]]]:
    """Put the fleet's arrays after a change on disk; return the public set, and the results' blobs of each round."""
    newest, before = based_on[-1], [info.class_id for info in classes]
    public_set, kept = class_columns.changed_public_set(
        PublicSet.unpack(store.blobs.read(str(newest.result_public_set))), change
    )
    if public_set.synthetic.all():
        raise RefusedError("last_class", "the public set would be left without a recording; a fleet needs one")
    shared: dict[str, str | None] = {"result_public_set": store.blobs.put(public_set.pack())}
    if newest.result_consensus is not None:
        scores, _ = unpack_consensus(store.blobs.read(newest.result_consensus))
        changed = class_columns.changed_consensus(scores, before, change, kept)
        shared["result_consensus"] = store.blobs.put(pack_consensus(changed, public_set.class_ids))
    if newest.result_prototypes is not None:
        prototypes = FleetPrototypes.unpack(store.blobs.read(newest.result_prototypes))
        shared["result_prototypes"] = store.blobs.put(class_columns.changed_prototypes(prototypes, change).pack())
    return public_set, [
        shared | _store_weights(store, row, model, before, change) for row, model in zip(based_on, models, strict=True)
    ]


def _store_weights(
    store: Store, row: RoundRow, model: str | None, before: Sequence[str], change: class_columns.ClassChange
) -> dict[str, str | None]:
    """Put a line's weights after a change on disk. A server optimiser starts anew: its moments have the old columns."""
    if model is None:
        return {}
    if row.result_weights is None:
        return {"result_server_state": None}
    bundle = unpack_bundle(store.blobs.read(model), f"model {model}")
    weights, _ = unpack(store.blobs.read(row.result_weights))
    head = bundle.manifest.head.weights
    changed = class_columns.changed_head(weights, bundle.weights, head, before, change)
    document = {"model": model, "classes": [info.class_id for info in change.classes]}
    return {"result_weights": store.blobs.put(pack(changed, document)), "result_server_state": None}
