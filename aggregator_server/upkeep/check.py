"""What is damaged in a data folder, and the repair of what can be repaired without a backup."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import update
from sqlalchemy.orm import Session

from aggregator_server.errors import BackupError
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.database import damage_of
from aggregator_server.store.location import Location, locate, way_back
from aggregator_server.store.needed_blobs import lasting, open_uploads
from aggregator_server.store.opening import alone, open_blobs, open_tables
from aggregator_server.store.tables import ParticipantRow
from aggregator_server.upkeep.backup import require_folder


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    what: str
    way_out: str  # advice on it
    repaired: bool = False  # whether this check has mended it


_RESTORE = "restore the folder from a backup (`auricle-aggregator restore`)"
_REPAIR = "stop the server and run this with --repair"


def check(place: Path | Location, *, repair: bool = False) -> list[Finding]:
    """Check everything in the state of a fleet. Without ``repair`` nothing is changed, and a server may run on it.

    ``repair``: forget damaged uploads of the open round, whose devices then send them again, and remove files that
    nothing needs. Raises StartError: the disk is full, or the tables are of another release or do not belong to the
    blobs. BackupError: it is no data folder, or a server runs and ``repair`` is set.
    """
    location = locate(place)
    require_folder(location)
    with alone(location) as is_alone:
        if repair and not is_alone:
            raise BackupError(f"a server runs on {location.data}; stop it before a repair")
        if location.file is not None:
            damage = damage_of(location.file)
            if damage:  # what its rows say cannot be relied upon
                return [Finding(f"{location.file} is damaged: {line}", way_back(location.data)) for line in damage]
        blobs = open_blobs(location)
        with closing(open_tables(location)) as tables, tables.writing() if repair else tables.reading() as session:
            found = [*_lasting(session, blobs), *_uploads(session, blobs, repair=repair)]
            if is_alone:  # otherwise files come and go
                found += _left(session, blobs, repair=repair)
        return found


def _lasting(session: Session, blobs: BlobStore) -> Iterator[Finding]:
    for sha256, needed_by in sorted(lasting(session).items()):
        if not blobs.is_whole(sha256):
            yield Finding(f"blob {blobs.shown(sha256)} ({needed_by}) is missing or damaged", _RESTORE)


def _uploads(session: Session, blobs: BlobStore, *, repair: bool) -> Iterator[Finding]:
    for upload in open_uploads(session):
        if blobs.is_whole(upload.sha256):
            continue
        if repair:
            own = (ParticipantRow.round_id == upload.round_id) & (ParticipantRow.device_id == upload.device_id)
            forgotten: dict[str, object] = {"upload": None, "uploaded_at": None, "clips": None, "metrics": {}}
            session.execute(update(ParticipantRow).where(own).values(forgotten))
            blobs.remove(upload.sha256)
        yield Finding(
            f"blob {blobs.shown(upload.sha256)} (upload of device {upload.device_id} in round {upload.round_id}) is "
            "missing or damaged",
            "the device sends it again" if repair else _REPAIR,
            repaired=repair,
        )


def _left(session: Session, blobs: BlobStore, *, repair: bool) -> Iterator[Finding]:
    """Find blobs that no row needs: a kill between a blob and its row, or at the end of a round, leaves some."""
    known = {*lasting(session), *(upload.sha256 for upload in open_uploads(session))}
    for sha256 in blobs.digests():
        if sha256 not in known:
            if repair:
                blobs.remove(sha256)
            yield Finding(
                f"blob {blobs.shown(sha256)} is needed by nothing", "" if repair else _REPAIR, repaired=repair
            )
