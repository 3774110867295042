"""``import``: recordings from elsewhere, into the clip store."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edge_client.commands import add_config, add_json
from edge_client.commands.waiting import add_wait, wait_until_learned
from fleet_protocol.command_line import INTERRUPTED, print_json

if TYPE_CHECKING:
    from edge_client.clips.importing import Summary
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    importing = commands.add_parser("import", help="teach sounds: take recordings over from a folder")
    importing.add_argument("folder", type=Path, metavar="DIR|FILE", help="holds LABEL/*.wav|flac|ogg|opus|mp3")
    meaning = importing.add_mutually_exclusive_group()
    meaning.add_argument("--label", help="what FILE, or all files that lie in DIR itself, are a sound of")
    meaning.add_argument("--not", dest="rejected", metavar="LABEL", help="what they are NOT, but resemble")
    add_wait(importing)
    add_json(importing)
    add_config(importing)
    importing.set_defaults(command=_import)


def _import(options: argparse.Namespace) -> int:
    from edge_client.clips.importing import Summary, import_folder
    from edge_client.commands.progress import progress
    from edge_client.owner import Teaching

    teaching = Teaching.open(options.config)
    label, check = options.label, teaching.require_slot
    if options.rejected is not None:
        label, check = options.rejected, teaching.require_rejectable
    summary = Summary()
    try:
        with progress("importing") as advance:
            import_folder(options.folder, label, teaching.store, teaching.settings, check, summary, advance)
    except KeyboardInterrupt:
        _print(summary, "Interrupted; the same command goes on from there.", json=options.json)
        return INTERRUPTED
    if options.wait:
        wait_until_learned(teaching)
    after = "" if options.wait or not summary.stored else teaching.after()
    _print(summary, after, json=options.json)
    return 1 if summary.refused and not summary.stored and not summary.present else 0


def _print(summary: Summary, after: str, *, json: bool) -> None:
    if json:
        refused = {str(path): reason for path, reason in summary.refused.items()}
        print_json({"stored": dict(summary.stored), "present": summary.present, "refused": refused})
        return
    for path, reason in summary.refused.items():
        print(f"refused {path}: {reason}", file=sys.stderr)
    for label, count in sorted(summary.stored.items()):
        print(f"{label}: {count} clips")
    counts = f"{summary.stored.total()} stored, {summary.present} were there already, {len(summary.refused)} refused."
    print(f"{counts} {after}".rstrip())
