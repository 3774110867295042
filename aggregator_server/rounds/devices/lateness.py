"""Who is late in a round: whoever takes much longer than the others did."""

import math
from collections.abc import Collection
from statistics import median

_LATE = 2.0  # medians of the time that the others took
_LEAST_MEDIAN_S = 1.0


def late_after(took: Collection[float], selected: int) -> float:
    """Return how many seconds after a round's opening a device that has not uploaded is late.

    Args:
        took: seconds that each device took that has uploaded.
        selected: number of devices that the round waits for, these included.

    Returns:
        Infinity until half of the devices have uploaded: fewer do not show how long a device takes.
    """
    if not took or 2 * len(took) < selected:
        return math.inf
    return _LATE * max(median(took), _LEAST_MEDIAN_S)
