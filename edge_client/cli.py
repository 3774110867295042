"""`auricle-edge`: runs the device's daemon, and prepares a fleet's public set from recordings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet_protocol.errors import AuricleError
from fleet_protocol.feature_settings import PRESETS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="auricle-edge", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="enrol, train when a round asks for it, and learn from the fleet")
    run.add_argument("--config", type=Path, required=True, metavar="FILE", help="TOML; docs/device.md lists the keys")
    public = commands.add_parser("public-set", help="compute a fleet's public set from a folder of recordings")
    public.add_argument("folder", type=Path, help="clips as LABEL/*.wav|flac|ogg")
    public.add_argument("--features", choices=sorted(PRESETS), default="gudur")
    public.add_argument("--per-label", type=int, default=300, metavar="N", help="clips of each label (300)")
    public.add_argument("--labels", metavar="A,B", help="only these labels (all)")
    public.add_argument("--seed", type=int, default=0, help="of the choice of clips (0)")
    public.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        return _run(options) if options.command == "run" else _public_set(options)
    except (AuricleError, OSError) as error:
        print(f"auricle-edge: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    from edge_client.daemon import run

    return run(options.config)


def _public_set(options: argparse.Namespace) -> int:
    from edge_client.durable import write_durably
    from edge_client.public_data import build_public_set

    labels = options.labels.split(",") if options.labels else None
    public_set = build_public_set(
        options.folder, PRESETS[options.features], labels=labels, per_label=options.per_label, seed=options.seed
    )
    write_durably(options.output, public_set.pack(), mode=0o644)
    print(f"{options.output}: {len(public_set.labels)} clips of {', '.join(public_set.class_ids)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
