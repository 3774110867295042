"""``backup`` and ``restore``: a device's state as one file, and back."""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from edge_client.commands import Command, Commands, confirm, open_teaching, report, set_command

if TYPE_CHECKING:
    from edge_client.config import Config
    from edge_client.storage.device_state import DeviceState


def add(commands: Commands) -> None:
    """Add the commands."""

    def with_file(name: str, help_: str, command: Command) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=help_)
        parser.add_argument("file", type=Path, metavar="FILE")
        set_command(parser, command)
        return parser

    backup = with_file("backup", "write the device's state to a file: identity, model, clips, journal", _backup)
    backup.add_argument("--force", action="store_true", help="replace FILE")
    restore = with_file("restore", "replace the device's state by that of a file; stop the daemon first", _restore)
    restore.add_argument("--yes", action="store_true", help="do not ask")


def _backup(options: argparse.Namespace) -> int:
    from edge_client.errors import StateError
    from edge_client.storage.backup import write_backup

    if options.file.exists() and not options.force:
        raise StateError(f"{options.file} is there already; --force replaces it")
    teaching = open_teaching(options)
    with teaching.store.changing():
        files = write_backup(teaching.state.folder, options.file)
    elsewhere = teaching.config.recordings.folder
    lines = [f"{options.file}: {files} files. It holds this device's secret and what it heard: keep it private."]
    if elsewhere is not None:
        lines.append(f"the recordings in {elsewhere} are not in it: copy that folder yourself")
    left_out = None if elsewhere is None else str(elsewhere)
    return report({"file": str(options.file), "files": files, "left_out": left_out}, lines, json=options.json)


def _restore(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.storage.device_state import DeviceState

    config = load_config(options.config)
    state = DeviceState(config.device.state)
    locks = [state.lock("daemon"), state.lock("training")]
    try:
        if (state.folder / "model.safetensors").exists() or (state.folder / "identity.json").exists():
            confirm(f"replace all that the device in {state.folder} is, knows and was taught", yes=options.yes)
        _replace(options.file, config, state)
    finally:
        for lock in locks:
            os.close(lock)
    lines = (
        f"{state.folder} is as it was when {options.file} was written. Start the daemon: auricle-edge run",
        "No other device may run with this state: the aggregator would take both for one.",
    )
    return report({"state": str(state.folder)}, lines, json=options.json)


def _replace(source: Path, config: Config, state: DeviceState) -> None:
    """Replace the state, once it is sure that the bundle goes with it."""
    from edge_client.storage.backup import commit_restore, discard_restore, unpack_backup
    from edge_client.storage.device_state import DeviceState

    try:
        unpacked = DeviceState(unpack_backup(source, state.folder))
        device = dataclasses.replace(config.device, state=unpacked.folder)
        unpacked.model.load(dataclasses.replace(config, device=device).bundle)
    except BaseException:
        discard_restore(state.folder)
        raise
    commit_restore(state.folder)
