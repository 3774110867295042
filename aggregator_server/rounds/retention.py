"""How long uploads stay on disk: until their round is over, because nothing reads them later. Tables keep the digests.

A file is removed only after the round's end is durable. A server that is killed in between removes what is left when
it starts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice

from aggregator_server.rounds.queries import uploads_of_closed_rounds
from aggregator_server.store import Store
from aggregator_server.store.tables import ParticipantRow, RoundRow

_log = logging.getLogger(__name__)
_BATCH = 500  # a statement takes only so many parameters


def remove_uploads(store: Store, round_id: int) -> None:
    """Remove the files of a round's uploads, where the round is over and the store does not keep them."""
    if store.keep_uploads:
        return
    with store.reading() as session:
        removable = session.scalars(uploads_of_closed_rounds().where(RoundRow.round_id == round_id)).all()
    _remove(store, removable)


def remove_left_uploads(store: Store) -> None:
    """Remove the files of every round that is over, when the server starts."""
    if store.keep_uploads:
        return
    present = store.blobs.digests()
    while batch := list(islice(present, _BATCH)):
        with store.reading() as session:
            removable = session.scalars(uploads_of_closed_rounds().where(ParticipantRow.upload.in_(batch))).all()
        _remove(store, removable)


def _remove(store: Store, digests: Iterable[str | None]) -> None:
    for sha256 in digests:
        try:
            store.blobs.remove(str(sha256))
        except OSError as error:  # the round is over all the same
            _log.warning("%s; the next start tries again", error)
