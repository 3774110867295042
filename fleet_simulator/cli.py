"""`auricle-sim`: a fleet of many virtual devices on one desk."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet_protocol.errors import AuricleError


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    root = argparse.ArgumentParser(prog="auricle-sim", description=__doc__)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run an experiment, or go on with one that was interrupted")
    run.add_argument("experiment", type=Path, metavar="EXPERIMENT.toml")
    run.add_argument("--output", type=Path, metavar="FOLDER", help="of the run (the experiment's name without .toml)")
    run.add_argument("--workers", type=int, metavar="N", help="processes that train devices (all cores); 0: this one")
    run.add_argument(
        "--ray",
        nargs="?",
        const="local",
        metavar="ADDRESS",
        help="run them on a Ray cluster (started here)",
    )
    run.set_defaults(command=_run)
    _add_fetch(commands)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = parser().parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: small matrices, many processes
    try:
        return int(options.command(options))
    except (AuricleError, OSError) as error:
        print(f"auricle-sim: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("auricle-sim: interrupted; the same command goes on from there", file=sys.stderr)
        return 130


def _add_fetch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    fetch = commands.add_parser("fetch", help="download a public data set, check and unpack it")
    fetch.add_argument("data_set", choices=["speech_commands"], metavar="speech_commands")
    fetch.add_argument("--output", type=Path, metavar="FOLDER", help="to unpack into (the data set's name)")
    fetch.add_argument("--url", help="of a mirror or another version (the authors' own)")
    fetch.add_argument("--sha256", metavar="DIGEST", help="of another version's archive")
    fetch.set_defaults(command=_fetch)


def _fetch(options: argparse.Namespace) -> int:
    from fleet_simulator.data.fetch import DATA_SETS, DataSet, fetch

    official = DATA_SETS[options.data_set]
    data = DataSet(options.url or official.url, (options.sha256 or official.sha256).lower())
    folder = options.output or Path(options.data_set)
    if fetch(data, folder, sys.stderr):
        print(f"{options.data_set} is in {folder}")
    else:
        print(f"{folder} is there already; remove it to fetch it anew")
    return 0


def _run(options: argparse.Namespace) -> int:
    from fleet_simulator.errors import ExperimentError
    from fleet_simulator.experiment.file import load_experiment
    from fleet_simulator.experiment.zero_shot_file import has_users, load_zero_shot
    from fleet_simulator.runs.progress import progress_on
    from fleet_simulator.shared_model.simulation import run
    from fleet_simulator.zero_shot.simulation import run_zero_shot

    workers = options.workers
    if workers is not None and not 0 <= workers <= 4096:
        raise ExperimentError(f"--workers must be from 0 to 4096, not {workers}")
    if workers == 0 and options.ray:
        raise ExperimentError("--workers 0 runs everything in this process; leave it or --ray out")
    folder = options.output or options.experiment.with_suffix("")
    if not has_users(options.experiment):
        experiment = load_experiment(options.experiment)
        rounds = run(experiment, folder, workers, progress_on(sys.stderr), options.ray).rounds
    elif options.ray:
        raise ExperimentError("the strategy 'zero_shot' runs on this machine alone; leave --ray out")
    else:
        rounds = run_zero_shot(load_zero_shot(options.experiment), folder, workers, progress_on(sys.stderr))
    last = rounds[-1]
    accuracy = f", accuracy {100 * last['accuracy']:.2f} %" if "accuracy" in last else ""
    print(f"{last['round']} rounds{accuracy}; results in {folder / 'result.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
