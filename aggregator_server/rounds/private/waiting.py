"""Whether the open private round need not wait for anybody in its stage. It is asked after every answer of a device."""

from sqlalchemy import ColumnElement, Select, bindparam, exists, func, select
from sqlalchemy.orm import Session

from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.store.tables import DeviceRow, ParticipantRow, PrivatePartRow, table_of
from fleet_protocol.messages.private_rounds import PrivateStage

_DEVICES, _PARTICIPANTS, _PARTS = table_of(DeviceRow), table_of(ParticipantRow), table_of(PrivatePartRow)
_TAKING_PART = (
    _PARTICIPANTS.outerjoin(
        _PARTS, (_PARTS.c.round_id == _PARTICIPANTS.c.round_id) & (_PARTS.c.device_id == _PARTICIPANTS.c.device_id)
    )
).join(_DEVICES, _DEVICES.c.device_id == _PARTICIPANTS.c.device_id)
_STANDS = _PARTS.c.group_index.is_not(None) & _PARTS.c.dropped.is_(False)


def _asks(condition: ColumnElement[bool]) -> Select[tuple[bool]]:
    """Return a query that tells whether a device of the round that may take part meets a condition."""
    may = _DEVICES.c.revoked_at.is_(None) & _DEVICES.c.device_id.not_in(QUARANTINED)
    of_round = _PARTICIPANTS.c.round_id == bindparam("of_round")
    return select(exists().select_from(_TAKING_PART).where(of_round, may, condition))


_MISSING: dict[PrivateStage, Select[tuple[bool]]] = {
    "keys": _asks(_PARTS.c.device_id.is_(None)),
    "shares": _asks(_STANDS & _PARTS.c.shares.is_(None)),
    "contribute": _asks(_STANDS & _PARTS.c.shares.is_not(None) & _PARTICIPANTS.c.upload.is_(None)),
    "unmask": _asks(_STANDS & _PARTICIPANTS.c.upload.is_not(None) & _PARTS.c.revealed.is_(None)),
}


_ANSWERS: dict[PrivateStage, ColumnElement[bool]] = {
    "keys": _PARTS.c.device_id.is_not(None),
    "shares": _PARTS.c.shares.is_not(None),
    "contribute": _PARTICIPANTS.c.upload.is_not(None),
    "unmask": _PARTS.c.revealed.is_not(None),
}


def count_answers(session: Session, round_id: int, stage: PrivateStage) -> int:
    """Return how many devices have answered in a stage."""
    counted = select(func.count()).select_from(_TAKING_PART)
    return session.scalar(counted.where(_PARTICIPANTS.c.round_id == round_id, _ANSWERS[stage])) or 0


def lacks_answers(session: Session, round_id: int, stage: PrivateStage) -> bool:
    """Tell whether a device has yet to answer in a stage."""
    return bool(session.scalar(_MISSING[stage], {"of_round": round_id}))
