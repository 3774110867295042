"""The result of a round: computed from the uploads, put on disk as blobs, then written as rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from sqlalchemy import delete, insert, tuple_
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import Contribution, RoundInputs, RoundResult, SharedModel
from aggregator_server.errors import BlobError
from aggregator_server.fleet.audit import SERVER, audit
from aggregator_server.fleet.conduct import note_round
from aggregator_server.fleet.public_sets import public_set_row
from aggregator_server.rounds.candidates import training_loss
from aggregator_server.rounds.snapshot import RoundSnapshot, read_open_round
from aggregator_server.rounds.states import mark_done
from aggregator_server.store.blobs import BlobFolder
from aggregator_server.store.tables import AssignmentRow, BlobRow, ClassRow, Json
from aggregator_server.strategies.others import aggregate
from aggregator_server.strategies.registry import strategy
from fleet_protocol.bundle import unpack_bundle
from fleet_protocol.errors import ProtocolError
from fleet_protocol.messages import RoundPlan, Update, parse
from fleet_protocol.public_set import PublicSet, pack_consensus, unpack_consensus
from fleet_protocol.tensors import Arrays, pack, read_document, unpack, view


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A round's result whose blobs are on disk.

    Attributes:
        result: The result.
        public_set: Blob of the public set after the round.
        consensus: Blob of the consensus; None while the fleet has none.
        grown: Whether the public set got new classes.
        weights: Blob of the shared model's weights; None in a round without one.
        server_state: Blob of what the next round's aggregation gets to see.
        prototypes: Blob of the fleet's prototypes; None while it has none.
    """

    result: RoundResult
    public_set: str
    consensus: str | None
    grown: bool
    weights: str | None = None
    server_state: str | None = None
    prototypes: str | None = None


def compute_result(blobs: BlobFolder, snapshot: RoundSnapshot) -> StoredResult:
    """Aggregate a round's uploads and put the resulting blobs on disk; the same snapshot gives the same bytes.

    Raises:
        AggregationError: the uploads cannot be combined.
        BlobError: a blob is missing or damaged.
    """
    result = aggregate(strategy(snapshot.strategy), read_inputs(blobs, snapshot))
    grown = len(result.public_set.classes) > len(snapshot.classes)
    public_set = blobs.put(result.public_set.pack()) if grown else snapshot.public_set
    class_ids, consensus, weights, prototypes = result.public_set.class_ids, None, None, snapshot.prototypes
    if result.consensus is not None:
        consensus = blobs.put(pack_consensus(result.consensus, class_ids))
    if result.weights is not None:
        weights = blobs.put(pack(result.weights, {"model": snapshot.model, "classes": list(class_ids)}))
    if result.prototypes is not None:
        prototypes = blobs.put(result.prototypes.pack())
    state = blobs.put(pack(result.state, {"of": state_owner(snapshot.plan)})) if result.state else None
    return StoredResult(
        result=result,
        public_set=public_set,
        consensus=consensus,
        grown=grown,
        weights=weights,
        server_state=state,
        prototypes=prototypes,
    )


def read_inputs(blobs: BlobFolder, snapshot: RoundSnapshot) -> RoundInputs:
    """Load the inputs of a round's aggregation."""
    public_set = PublicSet.unpack(blobs.read(snapshot.public_set))
    public_set = dataclasses.replace(public_set, classes=snapshot.classes)  # people may have renamed some
    if snapshot.consensus is None:
        consensus = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
    else:
        consensus, _ = unpack_consensus(blobs.read(snapshot.consensus))
    state = _read_state(blobs, snapshot)
    return RoundInputs(
        round_id=snapshot.round_id,
        plan=parse(RoundPlan, snapshot.plan),
        public_set=public_set,
        consensus=consensus,
        contributions=tuple(_contribution(blobs, upload) for _, upload, other in snapshot.uploads if not other),
        new_classes=snapshot.new_classes,
        assigned={(device_id, slot): class_id for device_id, slot, class_id in snapshot.assigned},
        model=_read_model(blobs, snapshot, state),
        has_consensus=snapshot.consensus is not None,
        state=state,
        revoked=frozenset(snapshot.revoked),
        others=tuple(_contribution(blobs, upload) for _, upload, other in snapshot.uploads if other),
    )


def _contribution(blobs: BlobFolder, upload: str) -> Contribution:
    """Read an upload's document. The arrays are checked for damage when they are read."""
    with blobs.open(upload) as file:
        try:
            document = parse(Update, read_document(file))
        except ProtocolError as error:
            raise BlobError(f"blob {file.name} is damaged ({error}); restore it from a backup") from error
    return Contribution(document, lambda: view(blobs.read(upload))[0])


def _read_model(blobs: BlobFolder, snapshot: RoundSnapshot, state: Arrays) -> SharedModel | None:
    if snapshot.model is None:
        return None
    bundle = unpack_bundle(blobs.read(snapshot.model), f"model {snapshot.model}")
    weights = bundle.weights
    if snapshot.weights is not None:
        weights, _ = unpack(blobs.read(snapshot.weights))
    return SharedModel(bundle.manifest, weights, state)


def _read_state(blobs: BlobFolder, snapshot: RoundSnapshot) -> Arrays:
    if snapshot.server_state is None:
        return {}
    kept, document = unpack(blobs.read(snapshot.server_state))
    return kept if document["of"] == state_owner(snapshot.plan) else {}


def state_owner(plan: Json) -> str:
    """Return the rule and server optimiser that a state belongs to: others cannot go on from it."""
    aggregation = parse(RoundPlan, plan).aggregation
    return f"{aggregation.name} {aggregation.settings.get('server_optimiser', '')}"


def apply_result(session: Session, round_id: int, stored: StoredResult, now: float) -> None:
    """Write all effects of a round, in the transaction that found the round unchanged."""
    result = stored.result
    blobs = {
        "consensus": stored.consensus,
        "weights": stored.weights,
        "server_state": stored.server_state,
        "prototypes": stored.prototypes,
    }
    for kind, sha256 in blobs.items():
        if sha256 is not None:
            session.merge(BlobRow(sha256=sha256, kind=kind))
    if stored.grown:
        session.merge(BlobRow(sha256=stored.public_set, kind="public_set"))
        session.flush()
        session.add(public_set_row(stored.public_set, result.public_set, round_id))
        for position, info in enumerate(result.public_set.classes):
            if info.discovered_in == round_id:
                session.add(
                    ClassRow(
                        class_id=info.class_id,
                        name=info.name,
                        folded=info.name.casefold(),
                        position=position,
                        discovered_in=round_id,
                    )
                )
                audit(session, "class_made", SERVER, now, class_id=info.class_id, name=info.name, round_id=round_id)
    session.flush()
    _assign(session, round_id, result)
    screened = (result.details.get("aggregation") or {}).get("screened", {})
    quarantined = note_round(session, round_id, _uploaders(session, round_id), screened, now)
    columns = {
        "result_public_set": stored.public_set,
        "result_consensus": stored.consensus,
        "result_weights": stored.weights,
        "result_server_state": stored.server_state,
        "result_prototypes": stored.prototypes,
        "details": result.details | {"quarantined": list(quarantined)},
        "training_loss": training_loss(session, round_id),
    }
    mark_done(session, round_id, now, columns)


def _uploaders(session: Session, round_id: int) -> tuple[str, ...]:
    """Return the devices whose uploads the result was made of."""
    snapshot = read_open_round(session)
    assert snapshot is not None
    assert snapshot.round_id == round_id
    return tuple(upload[0] for upload in snapshot.uploads)


def _assign(session: Session, round_id: int, result: RoundResult) -> None:
    """Store the assignments; one that was acknowledged but reported again is sent again."""
    if not result.assignments:
        return
    rows = [{**dataclasses.asdict(a), "round_id": round_id, "acknowledged": False} for a in result.assignments]
    keys = [(a.device_id, a.slot) for a in result.assignments]
    for start in range(0, len(keys), 500):  # a statement takes only so many parameters
        batch = keys[start : start + 500]
        session.execute(delete(AssignmentRow).where(tuple_(AssignmentRow.device_id, AssignmentRow.slot).in_(batch)))
    session.execute(insert(AssignmentRow), rows)
