"""Norm clipping in front of a rule: no device moves the fleet further than the others (Sun et al. 2019).

theta_k <- theta + (theta_k - theta) * min(1, c / || theta_k - theta ||_2),   theta what the devices started from
"""

from __future__ import annotations

import numpy as np

from aggregator_server.aggregation.updates import Updates, in_blocks
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Floats
from fleet_protocol.setting import Setting

CLIPPING: dict[str, Setting] = {
    "clip_norm": Setting(0.0, "largest L2 norm of a device's update, longer ones are shortened; 0: none is", 0.0, 1e9),
}

_ROWS = 32


def clip_norms(updates: Updates, previous: Floats, limit: float) -> dict[str, float]:
    """Shorten the updates whose norm is above a limit; the others stay as they are, to the last bit.

    Their rows of the matrix are overwritten: it is the only copy of the uploads, and may be most of the memory.

    Args:
        updates: the uploads; shortened in place.
        previous: float32 [weights], what the devices started from.
        limit: c, above 0.

    Returns:
        By device the norms of the updates that were shortened.

    Raises:
        AggregationError: the limit is not above 0.
    """
    if not limit > 0:
        raise AggregationError(f"clip_norm must be above 0, not {limit!r}; leave it out to clip nothing")
    norms = np.empty(len(updates))

    def measure(rows: slice) -> None:
        for row in range(rows.start, rows.stop):
            difference = np.subtract(updates.matrix[row], previous, dtype=np.float64)
            norms[row] = np.sqrt(np.einsum("i,i->", difference, difference))

    in_blocks(measure, len(updates), _ROWS)
    longer = np.flatnonzero(norms > limit)

    def shorten(rows: slice) -> None:
        for row in longer[rows]:
            difference = np.subtract(updates.matrix[row], previous, dtype=np.float64)
            updates.matrix[row] = previous + difference * (limit / norms[row])

    in_blocks(shorten, len(longer), _ROWS)
    return {updates.device_ids[row]: float(norms[row]) for row in longer}
