"""The part of FedMLAC's table in which every device is visited often, so that wrong labels can be learnt by heart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from studies.fedmlac.methods import FIVE, LISTENING, Method, fedavg, fedmlac, fedopt
from studies.fedmlac.names import CLEAN, FEDMLAC, FLEETS_OF_FIVE, HALF_WRONG, PAPERS_RATE, often
from studies.fedmlac.visits import visited
from studies.run import Call, Run

STOPS, TRIED_FOR = (20, 50, 100, 150), 100
_TESTED_EVERY = 10  # rounds
_WRONG = {CLEAN: 0.0, HALF_WRONG: 0.5}

TRIALS: Mapping[str, Mapping[str, Method]] = {
    "FedAvg": {f"{rate:g}": fedavg(rate) for rate in (0.04, 0.08)},
    "FedOPT": {
        f"{rate:g}, server's {server:g}": fedopt(rate, server) for rate, server in ((0.04, 0.003), (0.04, 0.01))
    },
    FEDMLAC: {f"{rate:g}, a {share:g}": fedmlac(rate, share) for rate, share in ((0.08, 0.1), (0.16, 0.1))},
}
CHOSEN = {"FedAvg": "0.08", "FedOPT": "0.04, server's 0.01", FEDMLAC: "0.16, a 0.1"}
METHODS: Mapping[str, Method] = {name: trials[CHOSEN[name]] for name, trials in TRIALS.items()} | {
    PAPERS_RATE: fedavg(0.01)
}
CONDITIONS = {CLEAN: ("FedAvg", FEDMLAC), HALF_WRONG: tuple(METHODS)}
"""Which methods are run under which."""
ONE_SEED = frozenset([often(PAPERS_RATE, HALF_WRONG), *(often(of, CLEAN) for of in CONDITIONS[CLEAN])])
"""Names of runs that have the first seed alone, so that the table ends in time."""


@dataclass(frozen=True)
class OftenVisited:
    """A fleet.

    Attributes:
        data: what ``[data]`` has.
        fleet: what ``[fleet]`` has.
        bundles: by architecture.
    """

    data: Mapping[str, Any]
    fleet: Mapping[str, Any]
    bundles: Mapping[str, Path]

    def trials(self, seeds: Sequence[int]) -> Iterator[Run]:
        """Yield them, with half of the labels wrong; shorter than what is reported."""
        for seed in seeds:
            for of, trials in TRIALS.items():
                for trial, method in trials.items():
                    yield self._run(f"{of} {trial}", method, HALF_WRONG, seed, (TRIED_FOR,))

    def reported(self, seeds: Sequence[int]) -> Iterator[Run]:
        """Yield every method's runs, and those of the fleet of five networks."""
        work = [(of, METHODS[of], condition) for condition, methods in CONDITIONS.items() for of in methods]
        work.append((f"{FEDMLAC}, {FLEETS_OF_FIVE}", replace(METHODS[FEDMLAC], own=FIVE), HALF_WRONG))
        for seed in seeds:
            for of, method, condition in work:
                run = self._run(of, method, condition, seed, STOPS)
                if seed == seeds[0] or run.name not in ONE_SEED:
                    yield run

    def _run(self, name: str, method: Method, condition: str, seed: int, stops: Sequence[int]) -> Run:
        rounds = {
            "strategy": method.strategy,
            "seed": seed,
            "evaluate_every": _TESTED_EVERY,
            "local": method.settings,
            "aggregation": dict(method.aggregation),
        }
        arguments = {
            "data": self.data,
            "bundles": [self.bundles[one] for one in (method.shared, *method.own)],
            "fleet": self.fleet,
            "rounds": rounds,
            "stops": stops,
            "wrong": _WRONG[condition],
            "listening": LISTENING,
        }
        cost = stops[-1] * self.fleet["devices"] * (0.11 if method.own else 0.06) + 8 * len(stops)
        return Run(often(name, condition), seed, Call(visited, arguments), cost, f"{self.data} {seed}")
