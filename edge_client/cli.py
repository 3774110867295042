"""`auricle-edge`: runs the device's daemon, teaches it, and looks after its microphone."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from edge_client.commands import clips, devices, fleet, import_clips, label, public_set, record, run, status, wyoming
from fleet_protocol.errors import AuricleError

_COMMANDS = (run, status, record, import_clips, label, clips, devices, public_set, fleet, wyoming)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    root = argparse.ArgumentParser(prog="auricle-edge", description=__doc__)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    for group in _COMMANDS:
        group.add(commands)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = parser().parse_args(arguments)
    # NumPy, which is not loaded yet, multiplies small matrices here: several threads would only wait for each other
    # (resampling a live 44.1 kHz took ten times the processor time).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        return int(options.command(options))
    except (AuricleError, OSError) as error:
        print(f"auricle-edge: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
