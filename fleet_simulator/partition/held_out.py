"""What every device does not train on: half of it to choose a model by, half to evaluate the choice on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_protocol.arrays import Ints
from fleet_simulator.partition.clip_shards import Owned


def hold_out(devices: Sequence[Ints], share: float, seed: int, windows: int = 1) -> list[Owned]:
    """Split every device's rows at random; each of the two halves is ``share / 2`` of them, rounded.

    Args:
        devices: rows of every device, ascending.
        share: of the rows that a device does not train on.
        seed: of the experiment.
        windows: so many rows after one another are of the same recording and stay together.
    """
    rng = np.random.default_rng([seed, 6])
    return [_owned(rows.reshape(-1, windows), share, rng) for rows in devices]


def _owned(recordings: Ints, share: float, rng: np.random.Generator) -> Owned:
    edge = round(share / 2 * len(recordings))
    if not edge:
        return Owned(recordings.ravel(), recordings[:0].ravel(), recordings[:0].ravel())
    order = rng.permutation(recordings)
    parts = order[2 * edge :], order[:edge], order[edge : 2 * edge]
    return Owned(*(np.sort(part.ravel()) for part in parts))
