# PYTHON_ARGCOMPLETE_OK
"""`auricle-edge`: runs the device's daemon, teaches it, and looks after its microphone."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from edge_client.commands import clips, daemon, events, fleet, init, mqtt, pause, teach, try_
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.command_line import describe_missing, parse, program, with_version

_COMMANDS = (try_, init, daemon, pause, teach, clips, events, fleet, mqtt)
_DESCRIPTION = "Hear sounds, learn new ones from you, and learn with other devices. Begin with `auricle-edge try`."
# Which extra brings a module that is not there.
_EXTRAS = {"starlette": "ui", "uvicorn": "ui", "jinja2": "ui", "wyoming": "wyoming"}


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    root = argparse.ArgumentParser(prog="auricle-edge", description=_DESCRIPTION)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    for group in _COMMANDS:
        group.add(commands)
    return with_version(root, _runtime)


def _runtime() -> str:
    """Return what computes the models here, or why nothing does."""
    from edge_client.model.interpreter import describe_runtime

    try:
        return f", {describe_runtime()}"
    except AuricleError as error:
        return f", no runtime: {error}"


@program
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = parse(parser(), arguments)
    # NumPy, which is not loaded yet, multiplies small matrices here: several threads would only wait for each other
    # (resampling a live 44.1 kHz took ten times the processor time).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if getattr(options, "search", False):
            from edge_client.config.location import find_config

            options.config = find_config(options.config)
        return int(options.command(options))
    except BrokenPipeError:
        raise  # nobody reads on
    except PermissionError as error:
        message = _not_allowed(error, sys.argv[1:] if arguments is None else arguments)
    except (AuricleError, OSError) as error:
        message = str(error)
        if isinstance(error.__cause__, PermissionError):
            message += f". {_not_allowed(error.__cause__, sys.argv[1:] if arguments is None else arguments)}"
    except ModuleNotFoundError as error:
        message = describe_missing(error, _EXTRAS.get((error.name or "").partition(".")[0], "edge"))
    print(f"auricle-edge: {message}", file=sys.stderr)
    return 1


def _not_allowed(error: PermissionError, arguments: Sequence[str]) -> str:
    """Say how a command may do what it was refused."""
    refusal = f"not allowed to use {error.filename}" if error.filename else str(error)
    return f"{refusal}: sudo auricle-edge {shlex.join(arguments)}"


if __name__ == "__main__":
    sys.exit(main())
