"""The result of a round: what a snapshot names is read from the store, combined, put on disk, and written as rows."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from sys import intern
from typing import Any

import numpy as np
from sqlalchemy import bindparam, delete, insert, tuple_, update
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import Contribution, RoundInputs, RoundResult, SharedModel
from aggregator_server.aggregation.group_screen import MOST_OF_GROUPS
from aggregator_server.aggregation.updates import in_blocks
from aggregator_server.errors import AggregationError, BlobError
from aggregator_server.fleet.audit import SERVER, audit
from aggregator_server.fleet.class_backing import add_senders, note_senders
from aggregator_server.fleet.publications import public_set_row
from aggregator_server.fleet.reputation import note_round
from aggregator_server.limits import SUSPICION, SUSPICION_IN_GROUPS
from aggregator_server.rounds.queries import mark_done, of_uploads, training_loss
from aggregator_server.rounds.quorum import why_missed
from aggregator_server.rounds.snapshot import RoundSnapshot
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.expressions import batches
from aggregator_server.store.tables import ACTIVE, BLOBS, AssignmentRow, ClassRow, ParticipantRow, RoundRow
from aggregator_server.strategies.plans import strategy
from fleet_protocol.bundle.bundle_file import unpack_bundle
from fleet_protocol.messages.public_set import PublicSet, pack_consensus, unpack_consensus
from fleet_protocol.messages.rest import ClassReport, RoundPlan, Update, parse
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays, pack, unpack, view

_log = logging.getLogger(__name__)
_UPLOADS_OF_A_TASK = 256  # that is read
_LOOKED_AT = tuple(item.name for item in dataclasses.fields(Update) if item.name != "metrics")
KINDS = ("public_set", "consensus", "prototypes", "weights", "server_state")
"""Kinds of the blobs that a round starts from, in columns of these names, and leads to, in ``result_`` columns."""
_CHANGE_KIND = update(BLOBS).where(BLOBS.c.sha256 == bindparam("of_blob")).values(kind=bindparam("as_kind"))
_NOTE_BLOB = insert(BLOBS).values(sha256=bindparam("of_blob"), kind=bindparam("as_kind"))


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A round's result whose blobs are on disk."""

    result: RoundResult
    blobs: dict[str, str | None]  # the blobs after the round, by kind
    grown: bool  # whether there are new classes, and so another public set
    suspicion: int = SUSPICION  # at which a device is put in quarantine


Compute = Callable[[BlobStore, RoundSnapshot], StoredResult | str]  # makes a round's result, or says why it has none


def _read_inputs(blobs: BlobStore, snapshot: RoundSnapshot, plan: RoundPlan, owner: str) -> RoundInputs:
    """Load the inputs of a round; ``owner``: of the state that may be gone on from.

    Raises AggregationError: too few uploads are whole. BlobError: another blob is not.
    """
    contributions = _contributions(blobs, snapshot)
    public_set = PublicSet.unpack(blobs.read(snapshot.public_set))
    public_set = dataclasses.replace(public_set, classes=snapshot.classes)  # people may have renamed some
    if snapshot.consensus is None:
        consensus = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
    else:
        consensus, _ = unpack_consensus(blobs.read(snapshot.consensus))
    kept, document = ({}, {}) if snapshot.server_state is None else unpack(blobs.read(snapshot.server_state))
    state: Arrays = kept if document.get("of") == owner else {}
    model = None
    if snapshot.model is not None:
        bundle = unpack_bundle(blobs.read(snapshot.model), f"model {snapshot.model}")
        weights = bundle.weights if snapshot.weights is None else unpack(blobs.read(snapshot.weights))[0]
        model = SharedModel(bundle.manifest, weights, state)
    return RoundInputs(
        round_id=snapshot.round_id,
        plan=plan,
        public_set=public_set,
        consensus=consensus,
        contributions=contributions,
        new_classes=snapshot.new_classes,
        assigned={(device_id, slot): class_id for device_id, slot, class_id in snapshot.assigned},
        model=model,
        has_consensus=snapshot.consensus is not None,
        prototypes=None if snapshot.prototypes is None else FleetPrototypes.unpack(blobs.read(snapshot.prototypes)),
        state=state,
        revoked=frozenset(snapshot.revoked),
        class_terms=snapshot.class_terms,
        private=snapshot.private,
        scratch=blobs.folder,
    )


def _contributions(blobs: BlobStore, snapshot: RoundSnapshot) -> tuple[Contribution, ...]:
    """Read the uploads that are neither missing nor damaged, some at a time; the documents stay in memory."""
    uploads = snapshot.uploads
    found: list[Contribution | BlobError] = [BlobError("not read yet")] * len(uploads)

    def arrays_of(upload: str) -> Arrays:
        return view(blobs.read(upload))[0]

    def read(part: slice) -> None:
        for place in range(part.start, part.stop):
            upload = uploads[place][1]
            try:
                found[place] = Contribution(_as_update(view(blobs.read(upload))[1]), partial(arrays_of, upload))
            except BlobError as error:
                found[place] = error

    if uploads:
        in_blocks(read, len(uploads), _UPLOADS_OF_A_TASK)
    contributions, damaged = [], []
    for (device_id, _), contribution in zip(uploads, found, strict=True):
        if isinstance(contribution, Contribution):
            contributions.append(contribution)
        else:
            _log.error("round %d goes on without device %s: %s", snapshot.round_id, device_id, contribution)
            damaged.append(device_id)
    reason = why_missed(snapshot, len(contributions)) if contributions else "there are none"
    if damaged and reason is not None:
        raise AggregationError(
            f"the uploads of {', '.join(damaged)} are damaged on this server's disk, and the others do not "
            f"suffice: {reason}; open the round again"
        )
    return tuple(contributions)


def _as_update(document: dict[str, Any]) -> Update:
    """Return an upload's document, which was parsed when it came in, without what no aggregation looks at."""
    # Texts that many devices send alike are in memory once: a round may have a hundred thousand documents.
    values = {name: document[name] for name in _LOOKED_AT if name in document}
    values |= {name: intern(values[name]) for name in ("features", "public_set")}
    values |= {name: _class_ids(tuple(values[name])) for name in ("classes", "known") if name in values}
    values["reports"] = tuple(parse(ClassReport, report) for report in values.get("reports", ()))
    return Update(**values)


@lru_cache(maxsize=64)
def _class_ids(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(intern, names))


def compute_result(blobs: BlobStore, snapshot: RoundSnapshot) -> StoredResult:
    """Aggregate a round's uploads and put the resulting blobs on disk; the same snapshot gives the same bytes.

    An upload that is missing or damaged counts as one that was never sent; the round's details name its device. Raises
    AggregationError: the uploads cannot be combined, or too few are whole. BlobError: another blob is not.
    """
    plan, how = parse(RoundPlan, snapshot.plan), strategy(snapshot.strategy)
    way = how if plan.private is None else how.private
    assert way is not None  # or none would have been opened
    # Other rules and server optimisers cannot go on from a state.
    owner = f"{plan.aggregation.name} {plan.aggregation.settings.get('server_optimiser', '')}"
    inputs = _read_inputs(blobs, snapshot, plan, owner)
    result = way.aggregate(inputs)
    whole = {contribution.update.device_id for contribution in inputs.contributions}
    result.details["damaged"] = sorted({device_id for device_id, _ in snapshot.uploads} - whole)
    grown = len(result.public_set.classes) > len(snapshot.classes)
    class_ids = result.public_set.class_ids
    stored_as: dict[str, str | None] = {"public_set": snapshot.public_set, "prototypes": snapshot.prototypes}
    if grown:
        stored_as["public_set"] = blobs.put(result.public_set.pack())
    if result.consensus is not None:
        stored_as["consensus"] = blobs.put(pack_consensus(result.consensus, class_ids))
    if result.weights is not None:
        document = {"model": snapshot.model, "classes": list(class_ids)}
        stored_as["weights"] = blobs.put(pack(result.weights, document))
    if result.prototypes is not None:
        stored_as["prototypes"] = blobs.put(result.prototypes.pack())
    if result.state:
        stored_as["server_state"] = blobs.put(pack(result.state, {"of": owner}))
    limit = SUSPICION if plan.private is None else SUSPICION_IN_GROUPS
    return StoredResult(result=result, blobs=stored_as, grown=grown, suspicion=limit)


def apply_result(session: Session, round_id: int, stored: StoredResult, now: float) -> None:
    """Write all effects of a round, in the transaction that found the round unchanged."""
    result = stored.result
    for kind, sha256 in stored.blobs.items():
        values = {"of_blob": sha256, "as_kind": kind}
        # A blob may be of another kind: an upload may have the very bytes of a result.
        if sha256 is not None and not session.connection().execute(_CHANGE_KIND, values).rowcount:
            session.execute(_NOTE_BLOB, values)
    if stored.grown:
        session.add(public_set_row(str(stored.blobs["public_set"]), result.public_set, round_id))
        for position, info in enumerate(result.public_set.classes):
            if info.discovered_in == round_id:
                session.add(
                    ClassRow(
                        class_id=info.class_id,
                        name=info.name,
                        folded=info.name.casefold(),
                        position=position,
                        discovered_in=round_id,
                        state=ACTIVE,
                    )
                )
                audit(session, "class_made", SERVER, now, class_id=info.class_id, name=info.name, round_id=round_id)
    session.flush()
    _assign(session, round_id, result)
    add_senders(session, [(one.class_id, one.device_id) for one in result.assignments])
    note_senders(session, result.senders)
    screened = (result.details.get("aggregation") or {}).get("screened", {})
    uploaders = _judged(of_uploads(session, round_id, ParticipantRow.device_id), result.details)
    quarantined = note_round(session, round_id, uploaders, screened, now, stored.suspicion)
    columns = {f"result_{kind}": stored.blobs.get(kind) for kind in KINDS}
    opened = session.get_one(RoundRow, round_id).details
    details = opened | result.details | {"quarantined": list(quarantined)}
    mark_done(session, round_id, now, columns | {"details": details, "training_loss": training_loss(session, round_id)})


def _judged(uploaders: Sequence[str], details: Mapping[str, Any]) -> Sequence[str]:
    """Return the devices that a round suspects or clears: all, but in a private one of which too many groups stood out.

    There most honest devices would be suspected. So only those are whose fault is seen without their group.
    """
    aggregation = details.get("aggregation") or {}
    group_of = {one: why["group"] for one, why in aggregation.get("screened", {}).items() if "group" in why}
    devices = Counter(group_of.values())
    whole = sum(count > 1 for count in devices.values())
    if not aggregation.get("undecided") and whole <= MOST_OF_GROUPS * len(details.get("private_groups", ())):
        return uploaders
    return [one for one in uploaders if devices[group_of.get(one)] == 1]


def _assign(session: Session, round_id: int, result: RoundResult) -> None:
    """Store the assignments; one that was acknowledged but reported again is sent again."""
    if not result.assignments:
        return
    rows = [{**dataclasses.asdict(a), "round_id": round_id, "acknowledged": False} for a in result.assignments]
    keys = [(a.device_id, a.slot) for a in result.assignments]
    for batch in batches(keys):
        session.execute(delete(AssignmentRow).where(tuple_(AssignmentRow.device_id, AssignmentRow.slot).in_(batch)))
    session.execute(insert(AssignmentRow), rows)
