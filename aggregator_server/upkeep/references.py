"""Which blobs the rows of a data folder need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Column, select
from sqlalchemy.orm import Session

from aggregator_server.rounds.states import IS_OPEN
from aggregator_server.store.tables import Base, BlobRow, ParticipantRow, RoundRow

_DIGEST = cast("Column[str]", BlobRow.__table__.c.sha256)


@dataclass(frozen=True)
class OpenUpload:
    """A device's upload in the open round; the device could send it again."""

    sha256: str
    device_id: str
    round_id: int


def open_uploads(session: Session) -> list[OpenUpload]:
    """Return the uploads of the open round, by device."""
    found = (
        select(ParticipantRow.upload, ParticipantRow.device_id, ParticipantRow.round_id)
        .join(RoundRow, RoundRow.round_id == ParticipantRow.round_id)
        .where(IS_OPEN, ParticipantRow.upload.is_not(None))
        .order_by(ParticipantRow.device_id)
    )
    return [OpenUpload(str(sha256), device_id, number) for sha256, device_id, number in session.execute(found)]


def other_uploads(session: Session) -> set[str]:
    """Return the digests of the uploads of rounds that are over, which need not be on disk."""
    everything = session.scalars(select(ParticipantRow.upload).where(ParticipantRow.upload.is_not(None)))
    return {str(sha256) for sha256 in everything} - {upload.sha256 for upload in open_uploads(session)}


def lasting(session: Session) -> dict[str, str]:
    """Return every blob but the uploads that has to be there, with the row that names it, for people."""
    found: dict[str, str] = {}
    for column, key in _columns():
        for sha256, row in session.execute(select(column, key).where(column.is_not(None)).order_by(key.desc())):
            found.setdefault(sha256, f"{column.name} of {key.name} {row} in {column.table.name}")
    return found


def _columns() -> Iterator[tuple[Column[str], Column[object]]]:
    """Yield every column that names a blob but the uploads', and the key of its table."""
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if column.references(_DIGEST) and column.table is not ParticipantRow.__table__:
                yield column, next(iter(table.primary_key.columns))
