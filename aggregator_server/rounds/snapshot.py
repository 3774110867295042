"""The state of the open round at one instant: the input of the step that moves it forward."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import ClassTerms, PrivateGroup
from aggregator_server.fleet.class_backing import sent_alone
from aggregator_server.fleet.classes import all_classes, merged_classes
from aggregator_server.fleet.publications import current_model, model_blob
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.limits import CLASSES
from aggregator_server.rounds.private.group_rows import read_groups
from aggregator_server.rounds.queries import lock_open_round
from aggregator_server.store.tables import ASSIGNMENTS, DEVICES, PARTICIPANTS, ClassRow, Json, PrivateRoundRow
from fleet_protocol.messages.private_rounds import PrivateStage
from fleet_protocol.messages.rest import ClassInfo

_TAKING_PART = (
    select(PARTICIPANTS.c.device_id, PARTICIPANTS.c.upload)
    .join(DEVICES, DEVICES.c.device_id == PARTICIPANTS.c.device_id)
    .where(
        PARTICIPANTS.c.round_id == bindparam("of_round"),
        DEVICES.c.revoked_at.is_(None),
        DEVICES.c.device_id.not_in(QUARANTINED),
    )
    .order_by(PARTICIPANTS.c.device_id)
)
_ASSIGNED = (
    select(ASSIGNMENTS.c.device_id, ASSIGNMENTS.c.slot, ASSIGNMENTS.c.class_id)
    .join(PARTICIPANTS, PARTICIPANTS.c.device_id == ASSIGNMENTS.c.device_id)
    .where(PARTICIPANTS.c.round_id == bindparam("of_round"))
    .order_by(ASSIGNMENTS.c.device_id, ASSIGNMENTS.c.slot)
)
_REVOKED = (
    select(DEVICES.c.device_id)
    .where(DEVICES.c.revoked_at.is_not(None) | DEVICES.c.device_id.in_(QUARANTINED))
    .order_by(DEVICES.c.device_id)
)


@dataclass(frozen=True, kw_only=True)
class RoundSnapshot:
    """The open round. A step compares it before its effects are written: when it changed, the step starts afresh."""

    round_id: int
    strategy: str
    plan: Json  # the round's plan as JSON
    new_classes: int | None  # number of new classes among the reports; None where nobody knows it
    deadline_at: float  # time at which the round closes at the latest, in seconds since 1970
    public_set: str  # blob of the public set that is scored
    consensus: str | None  # blob of the fleet's scores on it; None before the first round has ended
    selected: int  # number of selected devices that were neither revoked nor put in quarantine since
    uploads: tuple[tuple[str, str], ...]  # (device, blob) of those that uploaded, by device
    classes: tuple[ClassInfo, ...]
    assigned: tuple[tuple[str, int, str], ...]  # (device, slot, class) of the selected devices, from earlier rounds
    model: str | None  # blob of the shared model's bundle; None in a round without one
    weights: str | None  # blob of the weights that the devices started from; None for the bundle's own
    server_state: str | None  # blob of what the aggregation kept from the round before
    prototypes: str | None  # blob of the fleet's prototypes before the round; None where it has none
    # Devices, revoked or in quarantine, whose earlier uploads no longer count; only where the aggregation kept
    # something.
    revoked: tuple[str, ...]
    class_terms: ClassTerms
    stage: PrivateStage | None  # of a private round
    private: tuple[PrivateGroup, ...] | None  # its groups


def read_open_round(session: Session) -> RoundSnapshot | None:
    """Return the open round, or None; in a writing session the round's row is locked."""
    row = lock_open_round(session)
    if row is None:
        return None
    of_round, progress = {"of_round": row.round_id}, session.get(PrivateRoundRow, row.round_id)
    participants: Sequence[Any] = session.execute(_TAKING_PART, of_round).all()
    assigned: Iterable[Any] = session.execute(_ASSIGNED, of_round)
    newest = current_model(session)  # whose head must have a slot for each class
    terms = ClassTerms(
        max_classes=CLASSES if newest is None else min(CLASSES, newest.capacity),
        reserved=frozenset(session.scalars(select(ClassRow.class_id))),  # of former ones, too: none is given twice
        merged=merged_classes(session),
        alone={device_id: len(class_ids) for device_id, class_ids in sent_alone(session).items()},
    )
    return RoundSnapshot(
        round_id=row.round_id,
        strategy=row.strategy,
        plan=row.plan,
        new_classes=row.new_classes,
        deadline_at=float(row.deadline_at or 0.0),  # an open round has one
        public_set=row.public_set,
        consensus=row.consensus,
        selected=len(participants),
        uploads=tuple((device_id, upload) for device_id, upload in participants if upload is not None),
        classes=all_classes(session),
        assigned=tuple(
            (device_id, slot, terms.merged.get(class_id, class_id)) for device_id, slot, class_id in assigned
        ),
        model=model_blob(session, row.model_version),
        weights=row.weights,
        server_state=row.server_state,
        prototypes=row.prototypes,
        revoked=tuple(session.execute(_REVOKED).scalars()) if row.server_state is not None else (),
        class_terms=terms,
        stage=None if progress is None else progress.stage,
        private=None if progress is None else read_groups(session, row.round_id),
    )
