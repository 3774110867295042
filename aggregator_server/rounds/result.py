"""The result of a round: computed from the uploads, put on disk as blobs, then written as rows."""

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, select, tuple_, update
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import RoundResult
from aggregator_server.fleet.audit import SERVER, audit
from aggregator_server.fleet.public_sets import public_set_row
from aggregator_server.fleet.reputation import QUARANTINED, note_round
from aggregator_server.rounds.inputs import StoredRound
from aggregator_server.rounds.queries import WITH_DEVICES, training_loss
from aggregator_server.rounds.snapshot import RoundSnapshot
from aggregator_server.rounds.states import mark_done
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.tables import (
    ACTIVE,
    AssignmentRow,
    BlobRow,
    ClassRow,
    DeviceRow,
    ParticipantRow,
    RoundRow,
    table_of,
)
from aggregator_server.strategies.mixed_networks import aggregate
from fleet_protocol.public_set import pack_consensus
from fleet_protocol.tensors import pack

_log = logging.getLogger(__name__)
_BLOBS = table_of(BlobRow)
_CHANGE_KIND = update(_BLOBS).where(_BLOBS.c.sha256 == bindparam("of_blob")).values(kind=bindparam("as_kind"))
_NOTE_BLOB = insert(_BLOBS).values(sha256=bindparam("of_blob"), kind=bindparam("as_kind"))


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A round's result whose blobs are on disk.

    Attributes:
        public_set: Blob of the public set after the round.
        consensus: Blob of the consensus; None while the fleet has none.
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


Compute = Callable[[BlobStore, RoundSnapshot], StoredResult | str]
"""Makes a round's result, or says why it has none."""


def compute_result(blobs: BlobStore, snapshot: RoundSnapshot) -> StoredResult:
    """Aggregate a round's uploads and put the resulting blobs on disk; the same snapshot gives the same bytes.

    An upload that is missing or damaged counts as one that was never sent; the round's details name its device.

    Raises:
        AggregationError: the uploads cannot be combined, or too few are undamaged.
        BlobError: another blob is missing or damaged.
    """
    stored = StoredRound(blobs, snapshot)
    inputs = stored.inputs()
    result = aggregate(stored.strategy, inputs)
    whole = {contribution.update.device_id for contribution in (*inputs.contributions, *inputs.others)}
    result.details["damaged"] = sorted({device_id for device_id, _, _ in snapshot.uploads} - whole)
    grown = len(result.public_set.classes) > len(snapshot.classes)
    public_set = blobs.put(result.public_set.pack()) if grown else snapshot.public_set
    class_ids, consensus, weights, prototypes = result.public_set.class_ids, None, None, snapshot.prototypes
    if result.consensus is not None:
        consensus = blobs.put(pack_consensus(result.consensus, class_ids))
    if result.weights is not None:
        weights = blobs.put(pack(result.weights, {"model": snapshot.model, "classes": list(class_ids)}))
    if result.prototypes is not None:
        prototypes = blobs.put(result.prototypes.pack())
    state = blobs.put(pack(result.state, {"of": stored.state_owner})) if result.state else None
    return StoredResult(
        result=result,
        public_set=public_set,
        consensus=consensus,
        grown=grown,
        weights=weights,
        server_state=state,
        prototypes=prototypes,
    )


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
            _note_blob(session, sha256, kind)
    if stored.grown:
        _note_blob(session, stored.public_set, "public_set")
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
                        state=ACTIVE,
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


def _note_blob(session: Session, sha256: str, kind: str) -> None:
    """Let a blob be of a kind, whatever it was: an upload may have the very bytes of a result."""
    values = {"of_blob": sha256, "as_kind": kind}
    if not session.connection().execute(_CHANGE_KIND, values).rowcount:
        session.execute(_NOTE_BLOB, values)


def _uploaders(session: Session, round_id: int) -> tuple[str, ...]:
    """Return the devices whose uploads the result was made of; none where it is another round's, computed again."""
    uploaded = (
        select(ParticipantRow.device_id)
        .join(DeviceRow, DeviceRow.device_id == ParticipantRow.device_id)
        .join(RoundRow, RoundRow.round_id == ParticipantRow.round_id)
        .where(ParticipantRow.round_id == round_id, ParticipantRow.upload.is_not(None), WITH_DEVICES)
        .where(DeviceRow.revoked_at.is_(None), DeviceRow.device_id.not_in(QUARANTINED))
        .order_by(ParticipantRow.device_id)
    )
    return tuple(session.scalars(uploaded))


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
