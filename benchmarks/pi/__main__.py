"""`make bench-pi`: training and recognition on this machine, for every architecture and number of threads.

An epoch is 1,000 samples of 20 x 13 features in batches of 32; a clip is one second of sound. Every line comes from a
process of its own. Prints a table, and writes all figures with the machine they are of to a JSON file.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bundles import ARCHITECTURES, READY, ROOT, BenchmarkError, build_bundles, find_bundles
from benchmarks.pi.machine import Machine, throttling
from edge_client.daemon.board import temperature_c
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.errors import AuricleError

# Gudur & Perepu 2021, on a Raspberry Pi 2: an epoch of 1,000 frames, one inference, and the files of three models.
_EPOCH_S, _INFERENCE_MS, _MODELS_KB = 1.2, 11, (520, 350, 270)
PAPER = {"train_seconds_per_epoch": _EPOCH_S, "inference_ms": _INFERENCE_MS, "model_kb": _MODELS_KB}
FILES = {"bundle_kb": ".auricle", "float32_kb": ".float32.tflite", "int8_kb": ".int8.tflite"}
COLUMNS = {
    "train_seconds_per_epoch": ("train s", 3),
    "inference_ms_median": ("infer ms", 2),
    "inference_ms_p95": ("p95", 2),
    "with_features_ms_median": ("+feat ms", 2),
    "with_features_ms_p95": ("p95", 2),
    "peak_mb": ("peak MB", 0),
    "bundle_kb": ("bundle", 0),
    "float32_kb": ("float32", 0),
    "int8_kb": ("int8 kB", 0),
    "temperature_c": ("Celsius", 1),
}


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = argparse.ArgumentParser(prog="benchmarks.pi", description=__doc__)
    command.add_argument("--architectures", nargs="+", default=list(ARCHITECTURES), choices=ARCHITECTURES)
    command.add_argument(
        "--bundles",
        type=Path,
        metavar="FOLDER",
        help="take NAME.auricle from here; else build them, or without TensorFlow take the ready ones",
    )
    command.add_argument("--threads", nargs="+", type=int, metavar="N", help="(1 to 4, as many as there are cores)")
    command.add_argument(
        "--samples", type=int, default=1000, help="trained on per epoch; scaled to 1,000 (%(default)s)"
    )
    command.add_argument("--clips", type=int, default=200, help="recognised for each latency (%(default)s)")
    command.add_argument("--output", type=Path, default=ROOT / "build" / "bench-pi.json", help="(%(default)s)")
    command.add_argument("--json", action="store_true", help="end with what the file holds, on one line")
    return command


def measure(bundle: Path, threads: int, samples: int, clips: int) -> dict[str, Any]:
    """Return the figures of one process.

    Raises:
        BenchmarkError: with what it said when it failed.
    """
    command = [
        sys.executable,
        "-m",
        "benchmarks.pi.measurement",
        *map(str, (bundle.resolve(), threads, samples, clips)),
    ]
    # As on a device: NumPy's own threads would only get in the way of so little work.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BenchmarkError(f"{' '.join(command)} failed with status {result.returncode}:\n{result.stderr[-4000:]}")
    figures: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    for name, suffix in FILES.items():
        path = bundle.with_suffix(suffix)
        figures[name] = path.stat().st_size / 1000 if path.exists() else None
    return figures | {"temperature_c": temperature_c()}


def table(bundles: dict[str, Path], chosen: argparse.Namespace, threads: list[int]) -> list[dict[str, Any]]:
    """Print a line for each bundle and number of threads; return their figures."""
    print(f"{'architecture':<13}{'threads':>7}" + "".join(f"{title:>9}" for title, _ in COLUMNS.values()))
    results = []
    for name, bundle in bundles.items():
        for count in threads:
            figures = measure(bundle, count, chosen.samples, chosen.clips)
            cells = [_cell(figures[column], digits) for column, (_, digits) in COLUMNS.items()]
            print(f"{name:<13}{count:>7}" + "".join(cells), flush=True)
            results.append({"architecture": name, "threads": count, **figures})
    print(f"{'paper, Pi 2':<20}{_EPOCH_S:>9}{_INFERENCE_MS:>9}   models of {', '.join(map(str, _MODELS_KB))} kB\n")
    return results


def _cell(figure: float | None, digits: int) -> str:
    return f"{'-':>9}" if figure is None else f"{figure:>9.{digits}f}"


def bench(chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure everything on this machine; return what the file is to hold."""
    machine = Machine.here()
    threads = chosen.threads or list(range(1, min(machine.cores, 4) + 1))
    print(f"{machine}\n" + ("Its times say NOTHING about a real board.\n" if machine.emulator else ""))
    with tempfile.TemporaryDirectory() as folder:
        source = chosen.bundles or READY
        if not chosen.bundles and importlib.util.find_spec("tensorflow"):
            source = Path(folder)  # for the sake of the plain inference models, which no ready bundle has beside it
            build_bundles(source, chosen.architectures, "--tflite")
        results = table(find_bundles(source, chosen.architectures), chosen, threads)
    slowed = throttling()
    heat = temperature_c()
    print(f"temperature: {'not available' if heat is None else f'{heat:.1f} degrees Celsius'}; throttling: {slowed}")
    return {"machine": dataclasses.asdict(machine), "throttling": slowed, "paper": PAPER, "results": results}


def main() -> int:
    """Run the command line; return the exit status: 0, or 1 after an error message."""
    chosen = parser().parse_args()
    try:
        report = bench(chosen)
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        write_durably(chosen.output, (json.dumps(report, indent=1) + "\n").encode(), 0o644)
    except (AuricleError, OSError) as error:
        print(f"benchmarks.pi: {error}", file=sys.stderr)
        return 1
    print(f"written to {chosen.output}")
    if chosen.json:
        print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
