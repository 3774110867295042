"""Removes the blobs that no row names: a server that was killed between a blob and its row leaves one."""

import logging

from aggregator_server.limits import UNNAMED_S
from aggregator_server.store.expressions import batches
from aggregator_server.store.store import Store

_log = logging.getLogger(__name__)


def sweep(store: Store, now: float) -> int:
    """Remove the blobs that no row names and that are older than a day; return how many.

    A blob is younger than that when its row is written: storing one anew makes it young.
    """
    removed, old = 0, (entry.sha256 for entry in store.blobs.entries() if entry.stored_at < now - UNNAMED_S)
    for batch in batches(old):
        removed += store.remove_unnamed(batch)
    if removed:
        _log.info("%d arrays that nothing names were removed", removed)
    return removed
