"""``import``: recordings from elsewhere, into the clip store."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edge_client.commands import add_config

if TYPE_CHECKING:
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    importing = commands.add_parser("import", help="teach sounds: take recordings over from a folder")
    importing.add_argument("folder", type=Path, metavar="DIR", help="holds LABEL/*.wav|flac|ogg")
    importing.add_argument("--label", help="what all files that lie in DIR itself are a sound of")
    add_config(importing)
    importing.set_defaults(command=_import)


def _import(options: argparse.Namespace) -> int:
    from edge_client.clips.importing import import_folder
    from edge_client.commands.owner import Teaching

    teaching = Teaching.open(options.config)
    summary = import_folder(options.folder, options.label, teaching.store, teaching.settings, teaching.require_slot)
    for path, reason in summary.refused.items():
        print(f"refused {path}: {reason}", file=sys.stderr)
    for label, count in sorted(summary.stored.items()):
        print(f"{label}: {count} clips")
    print(
        f"{summary.stored.total()} stored, {summary.present} were there already, {len(summary.refused)} refused. "
        + (teaching.after() if summary.stored else "")
    )
    return 1 if summary.refused and not summary.stored and not summary.present else 0
