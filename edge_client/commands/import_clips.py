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
    importing.add_argument("folder", type=Path, metavar="DIR|FILE", help="holds LABEL/*.wav|flac|ogg")
    meaning = importing.add_mutually_exclusive_group()
    meaning.add_argument("--label", help="what FILE, or all files that lie in DIR itself, are a sound of")
    meaning.add_argument("--not", dest="rejected", metavar="LABEL", help="what they are NOT, but resemble")
    add_config(importing)
    importing.set_defaults(command=_import)


def _import(options: argparse.Namespace) -> int:
    from edge_client.clips.importing import import_folder
    from edge_client.commands.owner import Teaching

    teaching = Teaching.open(options.config)
    label, check = options.label, teaching.require_slot
    if options.rejected is not None:
        label, check = options.rejected, teaching.require_rejectable
    summary = import_folder(options.folder, label, teaching.store, teaching.settings, check)
    for path, reason in summary.refused.items():
        print(f"refused {path}: {reason}", file=sys.stderr)
    for label, count in sorted(summary.stored.items()):
        print(f"{label}: {count} clips")
    print(
        f"{summary.stored.total()} stored, {summary.present} were there already, {len(summary.refused)} refused. "
        + (teaching.after() if summary.stored else "")
    )
    return 1 if summary.refused and not summary.stored and not summary.present else 0
