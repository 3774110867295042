"""Simulation: seconds per round and peak memory of virtual fleets of 10 to 10,000 trivial devices.

Every device takes one step of one batch of 32 on a model of 25,000 weights, and all of them take part in every round,
whose result is on the disk before the next one begins. Each fleet runs in processes of its own; the seconds are the
median of the rounds after the first, the memory is the sum of what every process held at most.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bundles import build_bundles
from benchmarks.command import ROOT, BenchmarkError, Command, said
from benchmarks.processes import Usage
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from fleet_simulator.runs.progress import Progress
from fleet_simulator.runs.run_folder import available_cores
from fleet_simulator.simulation.run import run

BATCH = 32
# The fastest to train, so that it shows what the simulator itself costs; 608 slots give it 25,000 weights.
MODEL = "ann3"


class Watch(Progress):
    """Progress that looks at the processes after each round."""

    def __init__(self) -> None:
        super().__init__()
        self.usage = Usage()
        self.cpu_s: list[float] = []

    def round_done(self, _entry: dict[str, Any], _seconds: float) -> None:
        """Look at every process."""
        self.cpu_s.append(self.usage.look())


def measure(bundle: Path, devices: int, rounds: int, workers: int) -> list[float]:
    """Run a fleet in this process and its workers; return [seconds per round, MB, processor s a round]."""
    clips = round(devices * BATCH / 0.99)
    experiment = Experiment(
        DataSection("synthetic", test=0.01, clips=clips, speakers=max(200, devices)),
        FleetSection(devices=devices, split="iid"),
        ModelSection(bundle),
        RoundsSection(
            count=rounds, evaluate_every=0, local={"epochs": 1}, aggregation={"name": "weighted_mean", "clips_cap": 0.0}
        ),
    )
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        seconds = run(experiment, Path(folder) / "run", workers, watch).seconds
    return [statistics.median(seconds[1:]), watch.usage.peak_mb, (watch.cpu_s[-1] - watch.cpu_s[0]) / (rounds - 1)]


def _compared(bundle: Path, devices: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure a fleet, and where it is asked for the same in Flower's engine; return the figures."""
    seconds, peak_mb, cpu_s = _in_own_process(bundle, devices, options)
    figures = {"seconds_per_round": round(seconds, 4), "peak_mb": round(peak_mb, 1)}
    figures |= {"devices": devices, "processor_ms": round(1000 * cpu_s / devices, 3)}
    if options.beside_flower:
        flowers = _in_own_process(bundle, devices, options, "--beside-flower")
        figures |= {"flower_seconds": round(flowers, 4), "flower_times": round(flowers / seconds, 1)}
    return {"devices": devices, **figures}


def _in_own_process(bundle: Path, devices: int, options: argparse.Namespace, *more: str) -> Any:  # noqa: ANN401
    """Measure a fleet in processes of its own; return what a worker prints."""
    worker = [str(bundle.resolve()), str(devices), str(options.rounds), str(options.workers)]
    command = [sys.executable, "-m", "benchmarks.simulation", *more, "--worker", *worker]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # for Ray's workers
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, problems = process.communicate(timeout=options.limit)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)  # what it started ends with it
        raise BenchmarkError(
            f"{options.rounds} rounds of {devices} devices took more than {options.limit} s; raise --limit or ask for "
            "fewer --devices"
        ) from error
    if process.returncode:
        raise BenchmarkError(f"{' '.join(command)} failed:\n{problems[-4000:]}")
    return json.loads(out.splitlines()[-1])


def main() -> int:
    """Print the table."""
    parser = Command("benchmarks.simulation", __doc__, _headline)
    parser.add_argument("--devices", nargs="+", type=int, default=[10, 100, 1_000, 10_000], metavar="N")
    parser.add_argument("--rounds", type=int, default=6, metavar="N", help="of each fleet (6)")
    parser.add_argument("--workers", type=int, default=available_cores(), metavar="N", help="processes (all cores)")
    parser.add_argument("--limit", type=int, default=600, metavar="S", help="seconds for one fleet (600)")
    parser.add_argument("--bundle", type=Path, metavar="FILE", help="what the devices train (ann3 of 608 slots)")
    parser.add_argument("--beside-flower", action="store_true", help="measure Flower's engine on Ray too")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    return parser.run(work)


def _headline(results: list[dict[str, Any]]) -> str:
    one = max(results, key=lambda result: int(result["devices"]))
    took = f"{one['seconds_per_round']:.2f} s a round, {one['processor_ms']:.1f} processor ms a device"
    return f"{one['devices']:,} devices: {took}" + (
        f", Flower {one['flower_times']:.0f} times as long" if "flower_times" in one else ""
    )


def work(options: argparse.Namespace) -> object:
    """Print a line for each fleet; return the figures, or those of a worker."""
    if options.worker:
        bundle, *numbers = options.worker
        options.json = True
        if options.beside_flower:
            from benchmarks import flower_fleet

            return flower_fleet.measure(bundle, *map(int, numbers))
        return measure(Path(bundle), *map(int, numbers))
    print(f"{options.workers} workers, medians of {options.rounds - 1} rounds")
    with tempfile.TemporaryDirectory() as folder:
        if options.bundle is None:
            build_bundles(Path(folder), [MODEL], "--capacity", "608")
        bundle = options.bundle or Path(folder) / f"{MODEL}.auricle"
        return [said(_compared(bundle, devices, options)) for devices in options.devices]


if __name__ == "__main__":
    sys.exit(main())
