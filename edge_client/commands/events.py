"""``events``: what the device heard, from its journal."""

from __future__ import annotations

import argparse
import time
from datetime import datetime
from typing import TYPE_CHECKING

from edge_client.commands import Commands, confirm, report, set_command
from fleet_protocol.command_line import span_s

if TYPE_CHECKING:
    from edge_client.config import Config

# Events whose sounds may be kept, by far.
_MOST = 1_000_000


def add(commands: Commands) -> None:
    """Add the command."""
    events = commands.add_parser("events", help="list what the device heard")
    events.add_argument("--label", help="only this label; unknown: unknown sounds")
    events.add_argument("--since", metavar="TIME", help="30m, 2h, 3d, or a date and time such as 2026-01-31T18:00")
    events.add_argument("--count", type=int, default=20, metavar="N", help="the newest N (20)")
    events.add_argument("--forget", metavar="LABEL", help="remove the past events of a label instead")
    events.add_argument("--yes", action="store_true", help="do not ask before --forget")
    set_command(events, _events)


def _events(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.errors import ConfigError
    from edge_client.events.journal import past_events
    from edge_client.storage.database import FILE, Database

    config = load_config(options.config)
    database = Database(config.device.state / FILE)
    if options.forget is not None:
        confirm(f"remove the past events of {options.forget!r}", yes=options.yes)
        removed = _forget(config, options.forget)
        return report({"removed": removed}, [f"{removed} events were removed"], json=options.json)
    if options.count < 1:
        raise ConfigError(f"--count must be at least 1, not {options.count}")
    found = past_events(database, options.count, _since(options.since), options.label)
    lines = [
        f"{datetime.fromtimestamp(event.time).isoformat(' ', 'seconds')}  {event.label:<24} score {event.score:.2f}  "
        f"{event.level_db:6.1f} dB"
        + (f"  {event.input}" if event.input else "")
        + ("" if event.lasted_s is None else f"  for {event.lasted_s:.0f} s")
        for event in found
    ]
    nothing = "nothing was heard" + (" in that time" if options.since else "")
    return report([event.to_json() for event in found], lines or [nothing], json=options.json)


def _forget(config: Config, label: str) -> int:
    """Remove a label's events, their sounds where these are kept, and questions; return how many events these were."""
    from edge_client.clips.unknown_clips import DetectedClips
    from edge_client.events.journal import forget_events, past_events
    from edge_client.questions.store import QuestionStore
    from edge_client.storage.device_state import DeviceState
    from fleet_protocol.bundle import read_bundle

    state = DeviceState(config.device.state)
    # A sound is only removed here, so the rate of new ones does not matter.
    kept = DetectedClips(state.detected_folder, config.clips, 0)
    oldest = min((sound.heard_at for sound in kept.sounds()), default=time.time())
    kept.forget(event.time for event in past_events(state.database, _MOST, oldest - 1, label))
    QuestionStore(state, read_bundle(config.bundle).manifest.feature_settings.digest).forget_label(label)
    return forget_events(state.database, label)


def _since(given: str | None) -> float:
    """Return a time in seconds since 1970. Raises ConfigError if it is none."""
    from edge_client.errors import ConfigError

    if given is None:
        return 0.0
    if (span := span_s(given)) is not None:
        return time.time() - span
    try:
        return datetime.fromisoformat(given).timestamp()
    except ValueError as error:
        raise ConfigError(f"--since {given!r} is no time; write it like 30m, 2h, 3d or 2026-01-31T18:00") from error
