"""Simulation: seconds per round and peak memory of virtual fleets of 10 to 10,000 trivial devices.

Every device takes one step of one batch of 32 on a model of 25,000 weights, and all of them take part in every round,
whose result is on the disk before the next one begins. Each fleet runs in processes of its own; the seconds are the
median of the rounds after the first, the memory is the sum of what every process held at most.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bundles import ROOT, BenchmarkError, build_bundles
from fleet_simulator.experiment import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from fleet_simulator.simulation import available_cores, run

BATCH = 32
# ann3 is the fastest to train, so that it shows what the simulator itself costs; 608 slots give it 25,000 weights.
MODELS = {"ann3": ("ann3", "--capacity", "608"), "crnn_lite": ("crnn_lite",)}


@dataclasses.dataclass(frozen=True)
class Result:
    """One fleet's figures."""

    engine: str
    devices: int
    seconds_per_round: float
    peak_mb: float


class Watch:
    """Progress that notes what the processes have used: memory in MB at most, processor seconds after each round."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self.cpu_s: list[float] = []

    def begin(self, rounds: int, finished: int) -> None:
        """Say nothing."""

    def devices_done(self, count: int, of: int) -> None:
        """Say nothing."""

    def round_done(self, _entry: dict[str, Any], _seconds: float) -> None:
        """Look at every process."""
        pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children() if child.pid)]
        self.peak_mb = sum(map(_most_mb, pids))
        self.cpu_s.append(sum(map(_cpu_s, pids)))


def _most_mb(pid: int) -> float:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024 / 1e6


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(bundle: Path, devices: int, rounds: int, workers: int) -> list[float]:
    """Run a fleet in this process and its workers; return [seconds per round, MB, processor s a round]."""
    clips = round(devices * BATCH / 0.99)
    experiment = Experiment(
        DataSection("synthetic", test=0.01, clips=clips, speakers=max(200, devices)),
        FleetSection(devices, "iid"),
        ModelSection(bundle),
        RoundsSection(rounds, evaluate_every=0, local={"epochs": 1}),
    )
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        seconds = run(experiment, Path(folder) / "run", workers, watch).seconds
    return [statistics.median(seconds[1:]), watch.peak_mb, (watch.cpu_s[-1] - watch.cpu_s[0]) / (rounds - 1)]


def in_own_process(bundle: Path, devices: int, options: argparse.Namespace) -> tuple[Result, float]:
    """Measure a fleet in a process of its own; return its figures, and the processor seconds of a round."""
    worker = [str(bundle), str(devices), str(options.rounds), str(options.workers)]
    command = [sys.executable, "-m", "benchmarks.simulation", "--worker", *worker]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    seconds, peak_mb, cpu_s = json.loads(done.stdout.splitlines()[-1])
    return Result("auricle", devices, round(seconds, 4), round(peak_mb, 1)), cpu_s


def main() -> None:
    """Print the table and, with ``--json``, the list of results as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", nargs="+", type=int, default=[10, 100, 1_000, 10_000], metavar="N")
    parser.add_argument("--rounds", type=int, default=6, metavar="N", help="of each fleet (6)")
    parser.add_argument("--workers", type=int, default=available_cores(), metavar="N", help="processes (all cores)")
    parser.add_argument("--model", choices=MODELS, default="ann3", help="what the devices train (ann3)")
    parser.add_argument("--json", action="store_true", help="end with a JSON list")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        bundle, *numbers = options.worker
        print(json.dumps(measure(Path(bundle), *map(int, numbers))))
        return
    results = []
    print(f"{options.model}, {options.workers} workers, medians of {options.rounds - 1} rounds\n")
    print(f"{'engine':<10}{'devices':>8}{'s a round':>12}{'ms a device':>13}{'processor ms':>14}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        name, *how = MODELS[options.model]
        build_bundles(Path(folder), [name], *how)
        for devices in options.devices:
            found, cpu_s = in_own_process(Path(folder) / f"{name}.auricle", devices, options)
            results.append(found)
            each, cpu = (1000 * value / devices for value in (found.seconds_per_round, cpu_s))
            times = f"{found.seconds_per_round:>12.3f}{each:>13.3f}{cpu:>14.3f}"
            print(f"{found.engine:<10}{devices:>8}{times}{found.peak_mb:>9.0f}", flush=True)
    if options.json:
        print(json.dumps([dataclasses.asdict(result) for result in results]))


if __name__ == "__main__":
    main()
