"""`make bench-pi`: training and recognition on this machine, for every architecture and number of threads.

An epoch is 1,000 clips in batches of 32; a clip is one second of sound, a hop a quarter. Every line comes from a
process of its own. Prints a table, and writes all figures with the machine they are of to a JSON file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.bundles import READY, given_bundles
from benchmarks.command import ROOT, Command
from benchmarks.pi.machine import Machine, throttling
from edge_client.daemon.status import temperature_c
from fleet_protocol.ground.atomic_files import write_durably
from model_export.epoch_and_latency import measure

# Gudur & Perepu 2021, on a Raspberry Pi 2: an epoch of 1,000 frames, one inference, and the files of three models.
_EPOCH_S, _INFERENCE_MS, _MODELS_KB = 1.2, 11, (520, 350, 270)
_PAPER = {"train_seconds_per_epoch": _EPOCH_S, "inference_ms": _INFERENCE_MS, "model_kb": _MODELS_KB}
COLUMNS = {
    "train_seconds_per_epoch": ("train s", 3),
    "feature_seconds_per_epoch": ("feat s", 3),
    "inference_ms_median": ("infer ms", 2),
    "inference_ms_p95": ("p95", 2),
    "with_features_ms_median": ("+feat ms", 2),
    "with_features_ms_p95": ("p95", 2),
    "hop_ms_median": ("hop ms", 2),
    "peak_mb": ("peak MB", 0),
    "bundle_kb": ("kB", 0),
    "temperature_c": ("Celsius", 1),
}


def table(bundles: dict[str, Path], chosen: argparse.Namespace, threads: list[int]) -> list[dict[str, Any]]:
    """Print a line for each bundle and number of threads; return their figures."""
    print(f"{'bundle':<16}{'threads':>7}" + "".join(f"{title:>9}" for title, _ in COLUMNS.values()))
    results = []
    for name, bundle in bundles.items():
        for count in threads:
            figures = measure(bundle, count, chosen.samples, chosen.clips)
            figures |= {"bundle_kb": bundle.stat().st_size / 1000, "temperature_c": temperature_c()}
            cells = [_cell(figures[column], digits) for column, (_, digits) in COLUMNS.items()]
            print(f"{name:<16}{count:>7}" + "".join(cells), flush=True)
            results.append({"architecture": name, "threads": count, **figures})
    print(
        f"{'paper, Pi 2':<23}{_EPOCH_S:>9}{'':>9}{_INFERENCE_MS:>9}   models of {', '.join(map(str, _MODELS_KB))} kB\n"
    )
    return results


def _cell(figure: float | None, digits: int) -> str:
    return f"{'-':>9}" if figure is None else f"{figure:>9.{digits}f}"


def bench(chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure everything on this machine; return what the file is to hold."""
    machine = Machine.here()
    threads = chosen.threads or list(range(1, min(machine.cores, 4) + 1))
    print(f"{machine}\n" + ("Its times say NOTHING about a real board.\n" if machine.emulator else ""))
    results = table(given_bundles(chosen.bundles or [READY], chosen.architectures), chosen, threads)
    slowed = throttling()
    heat = temperature_c()
    print(f"temperature: {'not available' if heat is None else f'{heat:.1f} degrees Celsius'}; throttling: {slowed}")
    return {"machine": dataclasses.asdict(machine), "throttling": slowed, "paper": _PAPER, "results": results}


def main() -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.pi", __doc__)
    parser.add_argument("--architectures", nargs="+", metavar="NAME", help="which of a folder (all)")
    parser.add_argument("--bundles", nargs="+", type=Path, metavar="PATH", help="bundles, or folders (the ready ones)")
    parser.add_argument("--threads", nargs="+", type=int, metavar="N", help="(1 to 4, as many as there are cores)")
    parser.add_argument("--samples", type=int, default=1000, help="trained on per epoch; scaled to 1,000 (%(default)s)")
    parser.add_argument("--clips", type=int, default=200, help="recognised for each latency (%(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench-pi.json", help="(%(default)s)")

    def work(chosen: argparse.Namespace) -> object:
        report = bench(chosen)
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        write_durably(chosen.output, (json.dumps(report, indent=1) + "\n").encode(), 0o644)
        print(f"written to {chosen.output}")
        return report

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
