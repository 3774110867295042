# PYTHON_ARGCOMPLETE_OK
"""`auricle-sim`: a fleet of many virtual devices on one desk."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.command_line import INTERRUPTED, describe_missing, parse, program, with_version


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
    said = "change a setting, as in --set rounds=20 or --set rounds.strategy=fedprox; may be given several times"
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help=said)
    run.set_defaults(command=_run)
    new = commands.add_parser("new", help="write an example of an experiment")
    new.add_argument("file", type=Path, metavar="EXPERIMENT.toml")
    new.set_defaults(command=_new)
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


def _new(options: argparse.Namespace) -> int:
    from fleet_protocol.ground.atomic_files import write_durably
    from fleet_simulator.errors import ExperimentError

    if options.file.exists():
        raise ExperimentError(f"{options.file} is there already; name another file")
    example = Path(__file__).parent / "experiment" / "example.toml"
    write_durably(options.file, example.read_bytes(), 0o644)
    print(f"{options.file} is written; run it with: auricle-sim run {options.file}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from fleet_simulator.errors import ExperimentError
    from fleet_simulator.experiment.file import load
    from fleet_simulator.plugins import load_plugins
    from fleet_simulator.runs.progress import Progress
    from fleet_simulator.runs.run_folder import write_csv
    from fleet_simulator.simulation.run import run

    if options.workers is not None and not 0 <= options.workers <= 4096:
        raise ExperimentError(f"--workers must be from 0 to 4096, not {options.workers}")
    if options.workers == 0 and options.ray:
        raise ExperimentError("--workers 0 runs everything in this process; leave it or --ray out")
    experiment = load(options.experiment, options.changes, load_plugins(options.plugin))
    folder = options.output or options.experiment.with_suffix("")
    rounds = run(experiment, folder, options.workers, Progress(sys.stderr), options.ray).rounds
    if options.csv:
        write_csv(rounds, options.csv)
    last = rounds[-1]
    accuracy = f", accuracy {100 * last['accuracy']:.2f} %" if "accuracy" in last else ""
    print(f"{last['round']} rounds{accuracy}; results in {folder / 'result.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
