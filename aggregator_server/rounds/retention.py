"""How long uploads stay stored: those of the last round that is done, until the next one is. Tables keep the digests.

A round's result can be computed again from them without the uploads of a device (aggregator_server/undo/restoring.py).
A file is removed only after the round's end is durable. A server that is killed in between removes what is left when
it starts. So does what nothing names: a server that was killed between a blob and its row leaves it.
"""

import logging
from collections.abc import Iterable
from itertools import islice

from sqlalchemy.orm import Session

from aggregator_server.limits import KEPT_UPLOAD_BYTES, UNNAMED_S
from aggregator_server.rounds.queries import newest_with_uploads, uploads_of_closed_rounds, uploads_of_round
from aggregator_server.store import Store
from aggregator_server.store.tables import ParticipantRow, RoundRow

_log = logging.getLogger(__name__)
_BATCH = 500  # a statement takes only so many parameters


def remove_uploads(store: Store, round_id: int) -> None:
    """Remove the files that are not kept of a round that has just ended, and of the one before it."""
    if store.keep_uploads == "all":
        return
    with store.reading() as session:
        ended = [round_id, newest_with_uploads(session, before=round_id)]
        uploads = session.scalars(uploads_of_closed_rounds().where(RoundRow.round_id.in_(ended))).all()
        kept = _kept(store, session)
    _remove(store, set(uploads) - kept)


def remove_left_uploads(store: Store) -> None:
    """Remove the files of every round that is over and not kept, when the server starts."""
    if store.keep_uploads == "all":
        return
    with store.reading() as session:
        kept = _kept(store, session)
    present = store.blobs.digests()
    while batch := list(islice(present, _BATCH)):
        with store.reading() as session:
            over = session.scalars(uploads_of_closed_rounds().where(ParticipantRow.upload.in_(batch))).all()
        _remove(store, set(over) - kept)


def sweep(store: Store, now: float) -> int:
    """Remove the blobs that no row names and that are older than a day; return how many.

    A blob is younger than that when its row is written: storing one anew makes it young.
    """
    removed, old = 0, (entry.sha256 for entry in store.blobs.entries() if entry.stored_at < now - UNNAMED_S)
    while batch := list(islice(old, _BATCH)):
        removed += store.remove_unnamed(batch)
    if removed:
        _log.info("%d arrays that nothing names were removed", removed)
    return removed


def _kept(store: Store, session: Session) -> set[str | None]:
    """Return the uploads of the last round that is done, unless they are too large."""
    last = newest_with_uploads(session) if store.keep_uploads == "last" else None
    kept = set() if last is None else set(uploads_of_round(session, last).values())
    size = sum(store.blobs.size(sha256) for sha256 in kept)
    if size > KEPT_UPLOAD_BYTES:
        _log.info("the uploads of round %s are not kept: %d bytes are more than %d", last, size, KEPT_UPLOAD_BYTES)
        return set()
    return {*kept}


def _remove(store: Store, digests: Iterable[str | None]) -> None:
    for sha256 in digests:
        try:
            store.blobs.remove(str(sha256))
        except OSError as error:  # the round is over all the same
            _log.warning("%s; the next start tries again", error)
