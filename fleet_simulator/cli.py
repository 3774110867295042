# PYTHON_ARGCOMPLETE_OK
"""`auricle-sim`: a fleet of many virtual devices on one desk."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet_protocol.command_line import INTERRUPTED, parse, print_json, program, with_version
from fleet_protocol.errors import AuricleError
from fleet_protocol.extras import describe_missing


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
    _add_outputs(run)
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="changes",
        help="change a setting, as in --set rounds=20 or --set rounds.strategy=fedprox; may be given several times",
    )
    run.set_defaults(command=_run)
    new = commands.add_parser("new", help="write an example of an experiment")
    new.add_argument("file", type=Path, metavar="EXPERIMENT.toml")
    new.set_defaults(command=_new)
    compare = commands.add_parser("compare", help="lay results of several runs side by side")
    compare.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run that has ended")
    compare.add_argument("--plot", type=Path, metavar="FILE", help="picture of accuracy over rounds (.png, .svg, .pdf)")
    compare.add_argument("--json", action="store_true", help="as a JSON list")
    compare.set_defaults(command=_compare)
    _add_fetch(commands)
    return with_version(root)


def _add_outputs(run: argparse.ArgumentParser) -> None:
    run.add_argument("--csv", type=Path, metavar="FILE", help="also write a line for each round")
    run.add_argument("--tensorboard", type=Path, metavar="FOLDER", help="also write what TensorBoard shows")


@program
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = parse(parser(), arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: small matrices, many processes
    try:
        return int(options.command(options))
    except BrokenPipeError:
        raise  # nobody reads on
    except (AuricleError, OSError) as error:
        print(f"auricle-sim: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"auricle-sim: {describe_missing(error, 'sim')}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("auricle-sim: interrupted; the same command goes on from there", file=sys.stderr)
        return INTERRUPTED


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


def _new(options: argparse.Namespace) -> int:
    from fleet_protocol.atomic_files import write_durably
    from fleet_simulator.errors import ExperimentError

    if options.file.exists():
        raise ExperimentError(f"{options.file} is there already; name another file")
    example = Path(__file__).parent / "experiment" / "example.toml"
    write_durably(options.file, example.read_bytes(), 0o644)
    print(f"{options.file} is written; run it with: auricle-sim run {options.file}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from fleet_simulator.runs.tables import compare, plot, read_run

    runs = [read_run(folder) for folder in options.runs]
    rows = compare(runs)
    if options.plot:
        plot(runs, options.plot)
    if options.json:
        print_json(rows)
        return 0
    for row in rows:
        accuracy = "not tested" if row["accuracy"] is None else (
            f"accuracy {100 * row['accuracy']:5.1f} %, best {100 * row['best']:5.1f} % in round {row['best_round']}"
        )  # fmt: skip
        differs = ", ".join(f"{key} = {value}" for key, value in row["settings"].items())
        print(f"{row['run']:20s} {row['rounds']} rounds, {accuracy}, code {row['code'] or 'unknown'}  {differs}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from fleet_simulator.errors import ExperimentError
    from fleet_simulator.experiment.zero_shot_file import has_users
    from fleet_simulator.runs.tables import write_csv, write_tensorboard

    if options.workers is not None and not 0 <= options.workers <= 4096:
        raise ExperimentError(f"--workers must be from 0 to 4096, not {options.workers}")
    if options.workers == 0 and options.ray:
        raise ExperimentError("--workers 0 runs everything in this process; leave it or --ray out")
    folder = options.output or options.experiment.with_suffix("")
    users = has_users(options.experiment, options.changes)
    rounds = _run_users(options, folder) if users else _run_shared_model(options, folder)
    if options.csv:
        write_csv(rounds, options.csv)
    if options.tensorboard:
        write_tensorboard(rounds, options.tensorboard)
    last = rounds[-1]
    accuracy = f", accuracy {100 * last['accuracy']:.2f} %" if "accuracy" in last else ""
    print(f"{last['round']} rounds{accuracy}; results in {folder / 'result.json'}")
    return 0


def _run_shared_model(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    from fleet_simulator.experiment.file import load_experiment
    from fleet_simulator.runs.progress import progress_on
    from fleet_simulator.shared_model.simulation import run

    experiment = load_experiment(options.experiment, options.changes)
    return run(experiment, folder, options.workers, progress_on(sys.stderr), options.ray).rounds


def _run_users(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    from fleet_simulator.errors import ExperimentError
    from fleet_simulator.experiment.zero_shot_file import load_zero_shot
    from fleet_simulator.runs.progress import progress_on
    from fleet_simulator.zero_shot.simulation import run_zero_shot

    if options.ray:
        raise ExperimentError("the strategy 'zero_shot' runs on this machine alone; leave --ray out")
    experiment = load_zero_shot(options.experiment, options.changes)
    return run_zero_shot(experiment, folder, options.workers, progress_on(sys.stderr))


if __name__ == "__main__":
    sys.exit(main())
