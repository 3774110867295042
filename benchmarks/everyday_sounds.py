"""Everyday sounds in a fleet: front ends that heard sounds or speech, what of them should train, and cepstra.

Ten classes of UrbanSound8K (CC BY-NC 3.0, used for evaluation alone), the loudest second of each clip. Ten devices have
recordings of their own; the shared model is judged on the fifth of the recordings that no device has. By FedAvg every
bundle has a learning rate of its own, of as many tried on a seed that is not reported; prototypes have none.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.bundles import READY, build_bundles, given_bundles
from benchmarks.command import Command, recordings, said
from fleet_protocol.bundle import read_bundle
from fleet_protocol.setting import Value
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.fleets import MEAN, simulated

# From scratch on cepstra, and heads alone; `linear` has last block and head.
COMPARED, LAST_BLOCK = ("cnn2", "base", "sounds", "sounds_2s"), ("--features", "base", "--train", "last_block")
STRATEGIES = ("fedavg", "prototypes")
RATES, TUNING_SEED = (0.02, 0.06, 0.2), 100
DEVICES, TEST = 10, 0.2
# Share of the recordings by which uploaded prototypes are compared; no device has them.
PUBLIC = 0.05


def accuracy(bundle: Path, strategy: str, rate: float, rounds: int, seed: int, scratch: Path) -> float:
    """Return the shared model's accuracy in the last round on recordings that no device has, in %; 0: diverged.

    Prototypes are the same in every round, and there is no rate.
    """
    if strategy == "fedavg":
        local: dict[str, Value] = {"epochs": 1, "rehearsal": 0.0, "learning_rate": rate}
        section = RoundsSection(
            count=rounds, strategy=strategy, seed=seed, evaluate_every=rounds, local=local, aggregation=MEAN
        )
    else:
        section = RoundsSection(count=1, strategy=strategy, seed=seed)
    public = PUBLIC if strategy == "prototypes" else 0.0
    data = DataSection("urbansound8k", recordings("urbansound8k_subset"), test=TEST, public=public)
    fleet = FleetSection(devices=DEVICES, split="recording")
    figures = simulated(Experiment(data, fleet, ModelSection(bundle), section), scratch)
    return 0.0 if "diverged" in figures else 100 * float(figures["rounds"][-1]["accuracy"])


def measure(name: str, bundle: Path, strategy: str, chosen: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Choose a bundle's learning rate on one split, and return its accuracy on the others."""
    rates = RATES if strategy == "fedavg" else RATES[:1]
    tried = {rate: accuracy(bundle, strategy, rate, chosen.rounds, TUNING_SEED, scratch) for rate in rates}
    rate = max(rates, key=tried.__getitem__)
    found = [accuracy(bundle, strategy, rate, chosen.rounds, seed, scratch) for seed in range(1, chosen.seeds + 1)]
    manifest = read_bundle(bundle).manifest
    return said(
        {
            "front_end": manifest.feature_settings.preset,
            "trains": "head" if len(manifest.layers) == 1 else "last_block" if name == "linear" else "all",
            "strategy": strategy,
            "learning_rate": rate if strategy == "fedavg" else None,
            "splits": found,
            "mean": float(np.mean(found)),
            "deviation": float(np.std(found)),
        }
    )


def main() -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.everyday_sounds", __doc__)
    parser.add_argument(
        "--bundles", nargs="+", type=Path, metavar="PATH", help="(ready ones, and one of --train last_block)"
    )
    parser.add_argument(
        "--strategy", nargs="+", default=["fedavg"], choices=STRATEGIES, help="prototypes: of front ends that have them"
    )
    parser.add_argument("--rounds", type=int, default=20, help="with one epoch on each device (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="splits that are reported (%(default)s)")

    def work(chosen: argparse.Namespace) -> object:
        recordings("urbansound8k_subset")
        with tempfile.TemporaryDirectory() as folder:
            bundles = given_bundles(chosen.bundles or [READY], None if chosen.bundles else COMPARED)
            if not chosen.bundles:
                build_bundles(Path(folder) / "bundles", ["linear"], *LAST_BLOCK)
                bundles |= given_bundles([Path(folder) / "bundles"], None)
            return [
                measure(name, path, strategy, chosen, Path(folder) / "run")
                for strategy in chosen.strategy
                for name, path in bundles.items()
                if strategy == "fedavg" or read_bundle(path).manifest.background
            ]

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
