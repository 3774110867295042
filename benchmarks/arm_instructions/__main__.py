"""Counts the instructions of training, inference and front end, and prints them beside what was aimed for.

The figures of `--json` are those of a call through ModelRuntime, which is what a device pays: it checks its input. The
bare call of the graph's signature, with its input at hand, stands beside them: the first trial's figures are of that.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.arm_instructions.emulator import ARMV7_ROOT, count, require
from benchmarks.bundles import READY, given_bundles
from fleet_protocol.bundle import read_bundle
from fleet_protocol.errors import AuricleError

# Million instructions of cnn2 per training sample and per inference.
TARGETS = {"target for cnn2": (0.9, 0.5), "first trial of cnn2": (1.16, 0.58)}
_FIGURES = {
    "train": "train_minstructions_per_sample",
    "inference": "inference_minstructions",
    "clip": "front_end_minstructions_per_clip",
    "hop": "front_end_minstructions_per_hop",
    "network": "network_minstructions",
}


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = argparse.ArgumentParser(prog="benchmarks.arm_instructions", description=__doc__)
    command.add_argument("--architectures", nargs="+", metavar="NAME", help="which of a folder (all)")
    command.add_argument("--bundles", nargs="+", type=Path, metavar="PATH", help="bundles, or folders (the ready ones)")
    command.add_argument("--root", type=Path, default=ARMV7_ROOT, help="ARMv7 root (%(default)s)")
    command.add_argument("--json", action="store_true", help="end with a JSON list")
    return command


def measure(bundle: Path, root: Path) -> dict[str, float]:
    """Return million instructions of each of MEASUREMENTS, of training for each sample; 0 of a network: has none."""
    batch = read_bundle(bundle).manifest.batch
    counts = count(bundle, root)
    return {name: total / 1e6 / (batch if name.startswith("train") else 1) for name, total in counts.items()}


def table(bundles: dict[str, Path], root: Path) -> list[dict[str, str | float]]:
    """Print a line for each bundle; return the figures of `--json`."""
    print("million instructions on ARMv7 (Cortex-A7, one thread), counted under emulation\n")
    print(f"{'':<22}{'per training sample':^26}{'per inference of a clip':^26}{'front end':^39}")
    print(
        f"{'bundle':<22}" + f"{'ModelRuntime':>13}{'signature':>13}" * 2 + f"{'clip':>13}{'hop':>13}{'its network':>13}"
    )
    figures: list[dict[str, str | float]] = []
    for name, bundle in bundles.items():
        counted = measure(bundle, root)
        print(f"{name:<22}" + "".join(f"{counted[column]:>13.3f}" for column in counted), flush=True)
        columns = {title: round(counted[column], 4) for column, title in _FIGURES.items()}
        figures.append({"architecture": name, **columns})
    for name, (train, inference) in TARGETS.items():
        print(f"{name:<22}{train:>26.2f}{inference:>26.2f}")
    return figures


def main() -> int:
    """Run the command line; return the exit status: 0, or 1 after an error message."""
    chosen = parser().parse_args()
    try:
        require(chosen.root)
        figures = table(given_bundles(chosen.bundles or [READY], chosen.architectures), chosen.root)
    except (AuricleError, OSError) as error:
        print(f"benchmarks.arm_instructions: {error}", file=sys.stderr)
        return 1
    if chosen.json:
        print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
