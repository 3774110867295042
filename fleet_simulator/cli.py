# PYTHON_ARGCOMPLETE_OK
"""`auricle-sim`: a fleet of many virtual devices on one desk."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet_protocol.command_line import INTERRUPTED, describe_missing, parse, print_json, program, with_version
from fleet_protocol.errors import AuricleError

if TYPE_CHECKING:
    from fleet_simulator.experiment.sections import AnyExperiment


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    root = argparse.ArgumentParser(prog="auricle-sim", description=__doc__)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run an experiment, or go on with one that was interrupted")
    run.add_argument("experiment", type=Path, metavar="EXPERIMENT.toml")
    run.add_argument("--output", type=Path, metavar="FOLDER", help="of the run (the experiment's name without .toml)")
    run.add_argument("--workers", type=int, metavar="N", help="processes that train devices (all cores); 0: this one")
    run.add_argument(
        "--ray", nargs="?", const="local", metavar="ADDRESS", help="run them on a Ray cluster (started here)"
    )
    methods = "with a METHOD, RULE, SELECTION or STRATEGY of your own; may be given several times"
    run.add_argument("--plugin", type=Path, action="append", default=[], metavar="FILE.py", help=methods)
    run.add_argument("--csv", type=Path, metavar="FILE", help="also write a line for each round")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="changes",
        help="change a setting, as in --set rounds=20 or --set rounds.strategy=fedprox; may be given several times; "
        "several values, as in --set seed=1,2,3: a run for each",
    )
    run.set_defaults(command=_run)
    new = commands.add_parser("new", help="write an example of an experiment")
    new.add_argument("file", type=Path, metavar="EXPERIMENT.toml")
    new.set_defaults(command=_new)
    compare = commands.add_parser("compare", help="lay results of several runs side by side")
    compare.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="folder of a run that has ended, or of a sweep"
    )
    compare.add_argument("--plot", type=Path, metavar="FILE", help="picture of accuracy over rounds (.png, .svg, .pdf)")
    compare.add_argument("--json", action="store_true", help="as a JSON list")
    compare.set_defaults(command=_compare)
    _add_fetch(commands)
    return with_version(root)


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
    from fleet_simulator.runs.tables import compare, described, plot, read_runs

    runs = read_runs(options.runs)
    rows = compare(runs)
    if options.json:
        print_json(rows)
    else:
        print(*described(rows), sep="\n")
    if options.plot:
        plot(runs, options.plot)
    return 0


def _run(options: argparse.Namespace) -> int:
    from fleet_simulator.errors import ExperimentError, RunFolderError
    from fleet_simulator.experiment.file import load
    from fleet_simulator.experiment.sweep import sweep
    from fleet_simulator.plugins import load_plugins
    from fleet_simulator.runs.run_folder import STATE
    from fleet_simulator.runs.tables import write_csv

    if options.workers is not None and not 0 <= options.workers <= 4096:
        raise ExperimentError(f"--workers must be from 0 to 4096, not {options.workers}")
    if options.workers == 0 and options.ray:
        raise ExperimentError("--workers 0 runs everything in this process; leave it or --ray out")
    plugins = load_plugins(options.plugin)
    experiments = {name: load(options.experiment, changes, plugins) for name, changes in sweep(options.changes).items()}
    folder = options.output or options.experiment.with_suffix("")
    if "" not in experiments and (folder / STATE).exists():
        raise RunFolderError(f"{folder} holds a run that is no sweep; name another folder with --output")
    finished = _play_all(experiments, folder, options)
    if options.csv and finished:
        write_csv(finished, options.csv)
    return 0 if len(finished) == len(experiments) else 1


def _play_all(
    experiments: Mapping[str, AnyExperiment], folder: Path, options: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    """Run a sweep's experiments, or one alone; return the rounds of those that could be run."""
    from fleet_simulator.runs.inputs import Inputs
    from fleet_simulator.runs.progress import Lines
    from fleet_simulator.runs.tables import compare, described, read_runs
    from fleet_simulator.simulation.run import run

    finished, inputs = {}, Inputs()
    for name, experiment in experiments.items():
        if name:
            print(name, file=sys.stderr)
        try:
            shown = Lines(sys.stderr)
            rounds = run(experiment, folder / name, options.workers, shown, options.ray, inputs).rounds
        except AuricleError as error:
            if not name:
                raise
            print(f"auricle-sim: {name}: {error}", file=sys.stderr)  # a sweep's other runs may well come to an end
            continue
        finished[name] = rounds
        last = rounds[-1]
        accuracy = f", accuracy {100 * last['accuracy']:.2f} %" if "accuracy" in last else ""
        print(f"{last['round']} rounds{accuracy}; results in {folder / name / 'result.json'}")
    if len(finished) > 1:
        print(*described(compare(read_runs([folder / name for name in finished]))), sep="\n")
    return finished


if __name__ == "__main__":
    sys.exit(main())
