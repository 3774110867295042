"""``pause``, ``resume``: whether the device listens."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from edge_client.commands import Commands, open_device, report, set_command

if TYPE_CHECKING:
    from edge_client.pauses import Pauses
    from edge_client.storage.device_state import DeviceState


def add(commands: Commands) -> None:
    """Add the commands."""
    pause = commands.add_parser("pause", help="close the microphone: nothing is recorded until `resume`")
    pause.add_argument("--for", dest="span", metavar="TIME", help="it ends by itself: 90s, 30m, 8h or 2d, at most 30d")
    set_command(pause, _pause)
    resume = commands.add_parser("resume", help="listen again, also outside of [listen] hours until these begin")
    set_command(resume, _resume)


def _opened(options: argparse.Namespace) -> tuple[DeviceState, Pauses]:
    from edge_client.pauses import Pauses

    config, state = open_device(options)
    return state, Pauses(state.database, config.hours)


def _pause(options: argparse.Namespace) -> int:
    from edge_client.daemon.status import PATIENCE_S, has_closed
    from edge_client.errors import StateError
    from edge_client.pauses import seconds_of

    for_s = None if options.span is None else seconds_of(options.span)
    state, pauses = _opened(options)
    pauses.pause("command", for_s)
    running = state.locked("daemon")
    if running and not has_closed(state, pauses):
        raise StateError(
            f"the device is to pause, and the daemon did not close the microphone within {PATIENCE_S:g} s; stop it: "
            "systemctl stop auricle-edge"
        )
    pause = pauses.current()
    words = "" if pause is None else pause.words  # a short one may be over
    how = "the microphone is closed" if running else "the daemon does not run, and will not record when it does"
    document: dict[str, Any] = {"paused": None if pause is None else pause.to_json(), "running": running}
    return report(document, [f"paused {words}: {how}"], json=options.json)


def _resume(options: argparse.Namespace) -> int:
    state, pauses = _opened(options)
    was = pauses.current()
    pauses.resume()
    line = "it was not paused" if was is None else "the pause is over"
    running = state.locked("daemon")
    return report({"paused": None, "running": running}, [line], json=options.json)
