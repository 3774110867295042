"""Which blobs the rows of a fleet need."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Column, select
from sqlalchemy.orm import Session

from aggregator_server.store.tables import OPEN, Base, BlobRow, ModelRow, ParticipantRow, PublicSetRow, RoundRow

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
        .where(RoundRow.state == OPEN, ParticipantRow.upload.is_not(None))
        .order_by(ParticipantRow.device_id)
    )
    return [OpenUpload(str(sha256), device_id, number) for sha256, device_id, number in session.execute(found)]


def lasting(session: Session) -> dict[str, str]:
    """Return every blob but the uploads that has to be there, with the row that names it, for people."""
    found: dict[str, str] = {}
    for column, key in _columns():
        for sha256, row in session.execute(select(column, key).where(column.is_not(None)).order_by(key.desc())):
            found.setdefault(sha256, f"{column.name} of {key.name} {row} in {column.table.name}")
    return found


def one_lasting(session: Session) -> str | None:
    """Return the digest of one blob that has to be there, of the newest; None where the fleet has none yet."""
    for kind in (PublicSetRow, ModelRow):
        found = session.scalar(select(kind.sha256).order_by(kind.version.desc()).limit(1))
        if found is not None:
            return str(found)
    return None


def _columns() -> Iterator[tuple[Column[str], Column[object]]]:
    """Yield every column that names a blob but the uploads', and the key of its table."""
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if column.references(_DIGEST) and column.table is not ParticipantRow.__table__:
                yield column, next(iter(table.primary_key.columns))
