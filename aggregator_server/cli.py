# PYTHON_ARGCOMPLETE_OK
"""``auricle-aggregator``: run the server, manage its tokens and devices, publish a public set and a model."""

import argparse
import re
import sys
from collections.abc import Sequence

from aggregator_server.commands import classes, devices, new, rounds, run, tokens, try_, upkeep
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.command_line import describe_missing, parse, program, with_version

_COMMANDS = (try_, new, run, tokens, devices, rounds, classes, upkeep)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    root = argparse.ArgumentParser(
        prog="auricle-aggregator",
        description="Combine what devices learned about sounds, without their audio. "
        "Begin with `auricle-aggregator try`.",
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    for group in _COMMANDS:
        group.add(commands)
    return with_version(root)


@program
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the process' exit status."""
    options = parse(parser(), arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise  # nobody reads on
    except (AuricleError, OSError) as error:
        print(f"auricle-aggregator: {_for_commands(str(error))}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"auricle-aggregator: {describe_missing(error, 'server')}", file=sys.stderr)
        return 1


# What the interface for programs names, and the command that does it.
_COMMAND_OF = (
    (r"DELETE /v1/rounds/(\d+)", r"`auricle-aggregator round cancel \1`"),
    (r"GET /v1/rounds(?![/\w])", "`auricle-aggregator rounds`"),
    (r"GET /v1/classes(?![/\w])", "`auricle-aggregator classes`"),
    (r"GET /v1/devices(?![/\w])", "`auricle-aggregator devices list`"),
)


def _for_commands(said: str) -> str:
    """Return what an error says with commands in the place of requests, for whoever typed one."""
    for request, command in _COMMAND_OF:
        said = re.sub(request, command, said)
    return said


if __name__ == "__main__":
    sys.exit(main())
