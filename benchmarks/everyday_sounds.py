"""Everyday sounds by FedAvg: a pretrained front end for speech, what of it should train, and cepstra from scratch.

Ten classes of UrbanSound8K (CC BY-NC 3.0, used for evaluation alone), the loudest second of each clip. Ten devices have
recordings of their own; the shared model is judged on the fifth of the recordings that no device has. Every bundle has
a learning rate of its own, of as many tried on a seed that is not reported.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.bundles import READY, BenchmarkError, build_bundles, data_folder, given_bundles
from fleet_protocol.errors import AuricleError
from fleet_protocol.setting import Value
from fleet_simulator.experiment.data_section import DataSection
from fleet_simulator.experiment.sections import Experiment, FleetSection, ModelSection, RoundsSection
from studies.published import MEAN
from studies.simulated import simulated

DATA = data_folder() / "urbansound8k_subset"
# From scratch on cepstra, and the head alone; `linear` has last block and head.
COMPARED, LAST_BLOCK = ("cnn2", "base"), ("--features", "base", "--train", "last_block")
RATES, TUNING_SEED = (0.02, 0.06, 0.2), 100
DEVICES, TEST = 10, 0.2


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = argparse.ArgumentParser(prog="benchmarks.everyday_sounds", description=__doc__)
    command.add_argument(
        "--bundles", nargs="+", type=Path, metavar="PATH", help="(ready ones, and one of --train last_block)"
    )
    command.add_argument("--rounds", type=int, default=20, help="with one epoch on each device (%(default)s)")
    command.add_argument("--seeds", type=int, default=3, help="splits that are reported (%(default)s)")
    command.add_argument("--json", action="store_true", help="end with a JSON list")
    return command


def accuracy(bundle: Path, rate: float, rounds: int, seed: int, scratch: Path) -> float:
    """Return the shared model's accuracy in the last round on recordings that no device has, in per cent; 0: diverged.

    Raises:
        SimulationError: the recordings cannot be used.
    """
    local: dict[str, Value] = {"epochs": 1, "rehearsal": 0.0, "learning_rate": rate}
    section = RoundsSection(count=rounds, seed=seed, evaluate_every=rounds, local=local, aggregation=MEAN)
    data = DataSection("urbansound8k", DATA, test=TEST)
    fleet = FleetSection(devices=DEVICES, split="recording")
    figures = simulated(Experiment(data, fleet, ModelSection(bundle), section), scratch)
    return 0.0 if "diverged" in figures else 100 * float(figures["rounds"][-1]["accuracy"])


def measure(name: str, bundle: Path, chosen: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Choose a bundle's learning rate on one split, and return its accuracy on the others."""
    tried = {rate: accuracy(bundle, rate, chosen.rounds, TUNING_SEED, scratch) for rate in RATES}
    rate = max(RATES, key=tried.__getitem__)
    found = [accuracy(bundle, rate, chosen.rounds, seed, scratch) for seed in range(1, chosen.seeds + 1)]
    mean, spread = float(np.mean(found)), float(np.std(found))
    tuning = ", ".join(f"{rate:g}: {value:.1f}" for rate, value in tried.items())
    print(f"{name:<20}{mean:6.1f} % +- {spread:.1f}   rate {rate:g} (of {tuning})", flush=True)
    return {"model": name, "learning_rate": rate, "percent": mean, "deviation": spread, "seeds": found}


def main() -> int:
    """Run the command line; return the exit status: 0, or 1 after an error message."""
    chosen = parser().parse_args()
    try:
        if not DATA.is_dir():
            raise BenchmarkError(f"there is no {DATA}; set AURICLE_DATA to the folder that holds it")
        with tempfile.TemporaryDirectory() as folder:
            bundles = given_bundles(chosen.bundles or [READY], None if chosen.bundles else COMPARED)
            if not chosen.bundles:
                build_bundles(Path(folder) / "bundles", ["linear"], *LAST_BLOCK)
                bundles |= given_bundles([Path(folder) / "bundles"], None)
            results = [measure(name, path, chosen, Path(folder) / "run") for name, path in bundles.items()]
    except AuricleError as error:
        print(f"benchmarks.everyday_sounds: {error}", file=sys.stderr)
        return 1
    if chosen.json:
        print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
