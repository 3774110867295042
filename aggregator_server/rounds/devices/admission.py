"""Where an upload belongs: whether its round takes it, and the rows that it becomes.

The statements are built once, because every upload needs them twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Text, and_, bindparam, case, cast, exists, insert, literal, select, update
from sqlalchemy.orm import Session

from aggregator_server.errors import DuplicateUpdateError, NotSelectedError, RoundClosedError
from aggregator_server.rounds.continuous import is_due, present_round
from aggregator_server.rounds.queries import no_such_round
from aggregator_server.rounds.states import is_open, merging
from aggregator_server.store.tables import (
    BlobRow,
    DeviceRow,
    ModelRow,
    ParticipantRow,
    ReputationRow,
    RoundRow,
    table_of,
)
from fleet_protocol.messages import Update

_ROUNDS, _PARTICIPANTS, _MODELS = table_of(RoundRow), table_of(ParticipantRow), table_of(ModelRow)
_BLOBS, _DEVICES, _REPUTATIONS = table_of(BlobRow), table_of(DeviceRow), table_of(ReputationRow)
_ROUND_AND_PARTICIPANT = (
    select(
        _ROUNDS.c.round_id,
        _ROUNDS.c.state,
        _ROUNDS.c.deadline_at,
        merging(_ROUNDS).label("merges"),
        _ROUNDS.c.strategy,
        cast(_ROUNDS.c.plan, Text).label("plan"),
        _MODELS.c.sha256.label("model"),
        _PARTICIPANTS.c.device_id,
        _PARTICIPANTS.c.upload,
        _PARTICIPANTS.c.other,
        _REPUTATIONS.c.quarantined_at,
    )
    .select_from(
        _ROUNDS.outerjoin(
            _PARTICIPANTS,
            and_(_PARTICIPANTS.c.round_id == _ROUNDS.c.round_id, _PARTICIPANTS.c.device_id == bindparam("device_id")),
        )
        .outerjoin(_MODELS, _MODELS.c.version == _ROUNDS.c.model_version)
        .outerjoin(_REPUTATIONS, _REPUTATIONS.c.device_id == bindparam("device_id"))
    )
    .where(_ROUNDS.c.round_id == bindparam("round_id"))
    .with_for_update(of=_ROUNDS)
)
_NOTE_BLOB = insert(_BLOBS).from_select(
    ["sha256", "kind"],
    select(bindparam("sha256"), literal("update")).where(~exists().where(_BLOBS.c.sha256 == bindparam("sha256"))),
)
_NOTE_UPLOAD = (
    update(_PARTICIPANTS)
    .where(_PARTICIPANTS.c.round_id == bindparam("of_round"), _PARTICIPANTS.c.device_id == bindparam("of_device"))
    .values({name: bindparam(name) for name in ("upload", "uploaded_at", "clips", "metrics")})
)
_NOTE_CLIPS = (
    update(_DEVICES)
    .where(_DEVICES.c.device_id == bindparam("of_device"))
    .values(
        clips=case((bindparam("reported") > 0, bindparam("reported")), else_=_DEVICES.c.clips),
        label_entropy=bindparam("entropy"),
    )
)


@dataclass(frozen=True)
class Place:
    """Where an upload belongs.

    Attributes:
        round_id: The round that takes it; of a series, the open one.
        found: The round that the device named, with the device's part in it, as ``_ROUND_AND_PARTICIPANT`` selects it.
    """

    round_id: int
    found: Any


def admit(session: Session, round_id: int, device_id: str, sha256: str | None, now: float) -> Place | None:
    """Return where the upload belongs, or None where it is there already, or may be: only its bytes tell.

    Args:
        session: a reading one, or the one that writes the upload.
        round_id: the round that the device names.
        device_id: the device.
        sha256: of the bytes; None where they are not known yet.
        now: seconds since 1970.

    Raises:
        RoundNotFoundError, NotSelectedError, DuplicateUpdateError, RoundClosedError: it belongs nowhere.
    """
    found: Any = session.execute(_ROUND_AND_PARTICIPANT, {"round_id": round_id, "device_id": device_id}).first()
    if found is None:
        raise no_such_round(round_id)
    if found.merges:
        current = _admit_to_series(session, found, device_id, sha256, now)
        return None if current is None else Place(current, found)
    return Place(round_id, found) if _is_new(found, round_id, device_id, sha256, now) else None


def _is_new(found: Any, round_id: int, device_id: str, sha256: str | None, now: float) -> bool:  # noqa: ANN401
    """Tell whether a round takes an upload that is not there yet.

    Raises:
        NotSelectedError, DuplicateUpdateError, RoundClosedError: it belongs nowhere.
    """
    if found.device_id is None:
        raise NotSelectedError(
            f"device {device_id} was not selected for round {round_id}; GET /v1/work says what to do"
        )
    if found.upload is not None and sha256 in (None, found.upload):
        return False
    if found.upload is not None:
        raise DuplicateUpdateError(f"device {device_id} uploaded {found.upload} for round {round_id}; that one stands")
    if not is_open(found):
        raise RoundClosedError(f"round {round_id} is {found.state}; GET /v1/work says what to do next")
    _require_trusted(found, device_id)
    if now >= found.deadline_at:
        late = now - found.deadline_at
        raise RoundClosedError(f"round {round_id} closed {late:.1f} s ago, at its deadline; ask GET /v1/work")
    return True


def _admit_to_series(session: Session, found: Any, device_id: str, sha256: str | None, now: float) -> int | None:  # noqa: ANN401
    """Return the open round of a series, or None where the upload is in one of its rounds already."""
    round_row = session.get_one(RoundRow, found.round_id)
    same = ParticipantRow.device_id == device_id
    if sha256 is not None:
        same &= ParticipantRow.upload == sha256
    of_series = select(ParticipantRow.round_id).join(RoundRow, RoundRow.round_id == ParticipantRow.round_id)
    if session.scalar(of_series.where(same, RoundRow.schedule_id == round_row.schedule_id).limit(1)) is not None:
        return None
    current = present_round(session, round_row)
    if not is_open(current):
        raise RoundClosedError(f"the continuous rounds that round {round_row.round_id} was one of are over")
    _require_trusted(found, device_id)
    if not is_due(session, current, device_id, now):
        raise NotSelectedError(f"device {device_id} contributed lately; GET /v1/work says when it is asked again")
    return current.round_id


def note_upload(session: Session, place: Place, sha256: str, update: Update, now: float) -> None:
    """Write the rows of an upload that is on disk."""
    who = {"of_device": update.device_id}
    if place.found.merges:
        session.add(ParticipantRow(round_id=place.round_id, device_id=update.device_id, metrics={}))
        session.flush()
    session.execute(_NOTE_BLOB, {"sha256": sha256})
    values = {"upload": sha256, "uploaded_at": now, "clips": update.clips, "metrics": update.metrics}
    session.execute(_NOTE_UPLOAD, who | {"of_round": place.round_id} | values)
    session.execute(_NOTE_CLIPS, who | {"reported": update.clips, "entropy": update.label_entropy})


def _require_trusted(found: Any, device_id: str) -> None:  # noqa: ANN401
    """Check that a device's uploads count.

    Raises:
        NotSelectedError: it is in quarantine.
    """
    if found.quarantined_at is not None:
        raise NotSelectedError(
            f"device {device_id} is in quarantine, so its uploads do not count; GET /v1/devices/me says why. "
            "An operator can release it"
        )
