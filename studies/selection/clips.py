"""What dynamic selection saves by arithmetic alone: the clips that the selector draws, without any training.

Devices have the paper's hours of speech (Xu et al. 2025, table 2), and are drawn by the aggregator's own selector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aggregator_server.strategies.plans import complete
from aggregator_server.strategies.selection import Candidate, History, select
from fleet_protocol.messages.rest import Choice
from fleet_protocol.numbers.arrays import Doubles
from fleet_simulator.simulation.tasks import device_id
from studies.run import Figures

HOURS = (8.13, 7.36, 7.19, 7.76, 7.52, 15.57, 15.88, 15.72, 24.26, 24.44)
FRACTION = 0.3
_DRAWS = 4000
_RUNS = 20_000


def drawn(cases: Sequence[Sequence[Any]]) -> Figures:
    """Return what rounds and runs of the paper's fleet train on.

    A case has the selection that dynamic selection takes the place of (``even`` or ``by size``), the rounds of a run of
    that, R, and the rounds of a run of dynamic selection. Returns ``hours`` of a round, means by selection, and for
    each case in ``saved`` the share of the hours, 0..1: ``mean``, and ``low`` and ``high``, between which 95 % of all
    pairs of runs are.
    """
    pools = {
        "even": _pool("uniform", {}, 0),
        "by size": _pool("size_proportional", {}, 0),
        "early": _pool("dynamic", {"switch_round": 1}, 0),
        "late": _pool("dynamic", {"switch_round": 1}, 1),
    }
    rng = np.random.default_rng(1)
    saved = []
    for against, rounds, switch, last in cases:
        hours = _totals(pools["early"], switch, rng) + _totals(pools["late"], last - switch, rng)
        shares = 1 - hours / _totals(pools[against], rounds, rng)
        low, high = np.quantile(shares, (0.025, 0.975))
        saved.append({"mean": float(shares.mean()), "low": float(low), "high": float(high)})
    return {"hours": {name: float(pool.mean()) for name, pool in pools.items()}, "saved": saved}


def drawing(sizes: Sequence[float], choice: Choice) -> Callable[[History, tuple[int, ...]], list[int]]:
    """Return what draws a round's devices, by their numbers, as the aggregator does, after some history and by a seed.

    The ``sizes`` of the devices' data are in a unit of which fractions do not count.
    """
    devices = [Candidate(device_id(number), round(size)) for number, size in enumerate(sizes)]
    wanted = complete("selection", choice)
    return lambda history, seed: [int(device, 16) for device in select(devices, wanted, history, seed)]


def _pool(name: str, settings: dict[str, Any], done: int) -> Doubles:
    """Return the hours of many rounds' devices, float64 [draws], after so many rounds that are done."""
    draw = drawing([100 * hours for hours in HOURS], Choice(name, {"fraction": FRACTION, **settings}))
    return np.array([sum(HOURS[one] for one in draw(History(done), (1, number))) for number in range(_DRAWS)])


def _totals(pool: Doubles, rounds: int, rng: np.random.Generator) -> Doubles:
    """Return the hours of many runs of so many rounds, float64 [runs]."""
    return np.asarray(rng.choice(pool, (_RUNS, rounds)).sum(axis=1))
