"""An open round as the database has it at one instant: what its next step depends on, and on nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.shared_models import model_blob
from aggregator_server.store.tables import AssignmentRow, DeviceRow, Json, ParticipantRow, RoundRow
from fleet_protocol.messages import ClassInfo


@dataclass(frozen=True)
class RoundSnapshot:
    """Compared before a step's effects are written: when something changed meanwhile, the step starts afresh.

    Attributes:
        selected: selected devices that were not revoked since.
        uploads: (device, blob) of those that uploaded, by device.
        classes: the fleet's classes in column order.
        assigned: (device, slot, class) of the selected devices, from earlier rounds.
        model: blob of the shared model's bundle; None in a round without one.
        weights: blob of the weights that the devices started from; None: the bundle's own.
        server_state: blob of what the aggregation kept from the round before.
    """

    round_id: int
    strategy: str
    plan: Json
    new_classes: int | None
    deadline_at: float
    public_set: str
    consensus: str | None
    selected: int
    uploads: tuple[tuple[str, str], ...]
    classes: tuple[ClassInfo, ...]
    assigned: tuple[tuple[str, int, str], ...]
    model: str | None
    weights: str | None
    server_state: str | None

    def complete(self, now: float) -> bool:
        """Whether the round need not wait any longer."""
        return len(self.uploads) == self.selected or now >= self.deadline_at

    def shortfall(self) -> str | None:
        """Return why the uploads do not suffice, or None where they do."""
        if not self.selected:
            return "every selected device was revoked"
        quorum = float(self.plan["quorum"])
        needed = max(1, math.ceil(quorum * self.selected - 1e-9))
        if len(self.uploads) >= needed:
            return None
        return (
            f"quorum missed: {len(self.uploads)} of {self.selected} selected devices uploaded before the deadline, "
            f"{needed} were needed (quorum {quorum:g})"
        )


def read_open_round(session: Session) -> RoundSnapshot | None:
    """Return the open round, or None; in a writing session the round's row is locked."""
    row = session.scalar(select(RoundRow).where(RoundRow.state == "open").with_for_update())
    if row is None:
        return None
    active = (
        select(ParticipantRow.device_id, ParticipantRow.upload)
        .join(DeviceRow, DeviceRow.device_id == ParticipantRow.device_id)
        .where(ParticipantRow.round_id == row.round_id, DeviceRow.revoked_at.is_(None))
        .order_by(ParticipantRow.device_id)
    )
    participants = session.execute(active).all()
    assigned = (
        select(AssignmentRow.device_id, AssignmentRow.slot, AssignmentRow.class_id)
        .join(ParticipantRow, ParticipantRow.device_id == AssignmentRow.device_id)
        .where(ParticipantRow.round_id == row.round_id)
        .order_by(AssignmentRow.device_id, AssignmentRow.slot)
    )
    return RoundSnapshot(
        row.round_id,
        row.strategy,
        row.plan,
        row.new_classes,
        row.deadline_at,
        row.public_set,
        row.consensus,
        len(participants),
        tuple((device_id, upload) for device_id, upload in participants if upload is not None),
        all_classes(session),
        tuple((device_id, slot, class_id) for device_id, slot, class_id in session.execute(assigned)),
        model_blob(session, row.model_version),
        row.weights,
        row.server_state,
    )
