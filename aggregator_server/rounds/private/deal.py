"""The deal of a private round's devices into groups."""

import random
from collections.abc import Sequence


def deal(device_ids: Sequence[str], group_size: int, draw: random.Random) -> list[list[str]]:
    """Deal devices at random into groups of ``group_size`` or a few more; into one where there are not so many.

    ``draw``: nobody may foresee it, or a liar could choose its group.
    """
    dealt = list(device_ids)
    draw.shuffle(dealt)
    count = max(1, len(dealt) // group_size)
    return [dealt[index::count] for index in range(count)]
