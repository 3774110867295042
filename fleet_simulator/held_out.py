"""What every device does not train on: half of it to choose a model by, half to judge what was chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_simulator.clip_shards import Owned, Rows


def hold_out(devices: Sequence[Rows], share: float, seed: int) -> list[Owned]:
    """Split every device's rows at random; each of the two halves is ``share / 2`` of them, rounded."""
    rng = np.random.default_rng([seed, 6])
    return [_owned(rows, share, rng) for rows in devices]


def _owned(rows: Rows, share: float, rng: np.random.Generator) -> Owned:
    edge = round(share / 2 * len(rows))
    if not edge:
        return Owned(rows, rows[:0], rows[:0])
    order = rng.permutation(rows)
    return Owned(np.sort(order[2 * edge :]), np.sort(order[:edge]), np.sort(order[edge : 2 * edge]))
