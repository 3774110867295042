"""How long uploads stay stored: until their round is over. Tables keep digests.

A file is removed only after the round's end is durable. A server that is killed in between removes what is left when
it starts.
"""

import logging
from collections.abc import Iterable

from aggregator_server.rounds.queries import UPLOADS_OF_CLOSED_ROUNDS
from aggregator_server.store.expressions import batches
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ParticipantRow, RoundRow

_log = logging.getLogger(__name__)


def remove_uploads(store: Store, round_id: int) -> None:
    """Remove the files of a round that has just ended."""
    with store.reading() as session:
        uploads = session.scalars(UPLOADS_OF_CLOSED_ROUNDS.where(RoundRow.round_id == round_id)).all()
    _remove(store, uploads)


def remove_left_uploads(store: Store) -> None:
    """Remove the files of every round that is over, when the server starts."""
    for batch in batches(store.blobs.digests()):
        with store.reading() as session:
            over = session.scalars(UPLOADS_OF_CLOSED_ROUNDS.where(ParticipantRow.upload.in_(batch))).all()
        _remove(store, over)


def _remove(store: Store, digests: Iterable[str | None]) -> None:
    for sha256 in digests:
        try:
            store.blobs.remove(str(sha256))
        except OSError as error:  # the round is over all the same
            _log.warning("%s; the next start tries again", error)
