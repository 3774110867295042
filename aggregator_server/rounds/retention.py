"""How long uploads stay stored: until their round is over. Tables keep digests.

A file is removed only after the round's end is durable. A server that is killed in between removes what is left when
it starts. So does what nothing names: a server that was killed between a blob and its row leaves it.
"""

import logging
from collections.abc import Iterable
from itertools import islice

from aggregator_server.limits import UNNAMED_S
from aggregator_server.rounds.queries import UPLOADS_OF_CLOSED_ROUNDS
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ParticipantRow, RoundRow

_log = logging.getLogger(__name__)
_BATCH = 500  # a statement takes only so many parameters


def remove_uploads(store: Store, round_id: int) -> None:
    """Remove the files of a round that has just ended."""
    with store.reading() as session:
        uploads = session.scalars(UPLOADS_OF_CLOSED_ROUNDS.where(RoundRow.round_id == round_id)).all()
    _remove(store, uploads)


def remove_left_uploads(store: Store) -> None:
    """Remove the files of every round that is over, when the server starts."""
    present = store.blobs.digests()
    while batch := list(islice(present, _BATCH)):
        with store.reading() as session:
            over = session.scalars(UPLOADS_OF_CLOSED_ROUNDS.where(ParticipantRow.upload.in_(batch))).all()
        _remove(store, over)


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


def _remove(store: Store, digests: Iterable[str | None]) -> None:
    for sha256 in digests:
        try:
            store.blobs.remove(str(sha256))
        except OSError as error:  # the round is over all the same
            _log.warning("%s; the next start tries again", error)
