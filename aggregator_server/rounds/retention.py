"""Uploads of rounds that are over: their files go, for nothing looks at them again; the tables keep their digests.

A file is removed only after the round's end is durable. Killed in between, the server removes what is left when it
starts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice

from sqlalchemy import Select, select

from aggregator_server.store import Store
from aggregator_server.store.tables import ParticipantRow, RoundRow

_log = logging.getLogger(__name__)
_AT_ONCE = 500  # a statement takes only so many parameters


def remove_uploads(store: Store, round_id: int) -> None:
    """Remove the files of what was uploaded for a round, where that is over and the store does not keep them."""
    if store.keep_uploads:
        return
    with store.reading() as session:
        spent = session.scalars(_spent().where(RoundRow.round_id == round_id)).all()
    _remove(store, spent)


def remove_left_uploads(store: Store) -> None:
    """Remove the files of every round that is over, as above: to be called when the server starts."""
    if store.keep_uploads:
        return
    present = store.blobs.digests()
    while some := list(islice(present, _AT_ONCE)):
        with store.reading() as session:
            spent = session.scalars(_spent().where(ParticipantRow.upload.in_(some))).all()
        _remove(store, spent)


def _spent() -> Select[str | None]:
    over = (ParticipantRow.round_id == RoundRow.round_id) & (RoundRow.state != "open")
    return select(ParticipantRow.upload).join(RoundRow, over).where(ParticipantRow.upload.is_not(None))


def _remove(store: Store, digests: Iterable[str | None]) -> None:
    for sha256 in digests:
        try:
            store.blobs.remove(str(sha256))
        except OSError as error:  # the round is over all the same
            _log.warning("%s; the next start tries again", error)
