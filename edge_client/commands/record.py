"""``record``: takes of a sound, from the device's microphone into the clip store."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from edge_client.commands import add_config, add_json
from edge_client.commands.waiting import add_wait, wait_until_learned
from fleet_protocol.command_line import print_json

if TYPE_CHECKING:
    from edge_client.commands import Commands

# Seconds around a clip-long sound, so that nobody must speak to the point.
_ROOM_FOR_SLOWNESS_S = 1.0


def add(commands: Commands) -> None:
    """Add the command."""
    record = commands.add_parser("record", help="teach a sound: record some takes of it")
    record.add_argument("--label", required=True, help="what it is a sound of")
    record.add_argument("--count", type=int, default=20, metavar="N", help="good takes wanted (20)")
    record.add_argument("--seconds", type=float, metavar="S", help="length of a take (a second more than a clip)")
    record.add_argument("--quiet", action="store_true", help="without a beep before a take and a sound after it")
    add_wait(record)
    add_json(record)
    add_config(record)
    record.set_defaults(command=_record)


def _record(options: argparse.Namespace) -> int:
    from edge_client.capture.cues import Cues
    from edge_client.capture.microphone import open_microphone
    from edge_client.capture.shared_microphone import borrowed_microphone
    from edge_client.clips.level_meter import display_for
    from edge_client.clips.recorder import Recorder
    from edge_client.commands.owner import Teaching
    from edge_client.config.sections import MicrophoneConfig
    from edge_client.errors import ClipError

    teaching = Teaching.open(options.config)
    settings, store = teaching.settings, teaching.store
    label = teaching.require_slot(options.label)
    seconds = settings.clip_s + _ROOM_FOR_SLOWNESS_S if options.seconds is None else options.seconds
    if not settings.clip_s <= seconds <= 60 or options.count < 1:
        raise ClipError(f"--seconds must be from {settings.clip_s:g} (a clip) to 60, and --count at least 1")
    rate, display = settings.sample_rate_hz, display_for(sys.stderr if options.json else sys.stdout)
    before = len(store.clips(label))
    with borrowed_microphone(teaching.config.device.state), store.changing():
        source = open_microphone(teaching.config.microphone or MicrophoneConfig(), rate)
        try:
            recorder = Recorder(source, settings, display, None if options.quiet else Cues())
            store.add_background(recorder.hear_room(), rate, settings.clip_s)
            recorder.record(options.count, seconds, lambda clip: store.add(label, clip, rate))
        except KeyboardInterrupt:
            display.say("stopped")
        finally:
            source.close()
    kept = len(store.clips(label))
    if options.wait:
        wait_until_learned(teaching)
    if options.json:
        print_json({"label": label, "kept": kept - before, "clips": kept})
        return 0 if kept - before >= options.count else 1
    display.say(f"{kept - before} takes were kept; {label!r} has {kept}. {'' if options.wait else teaching.after()}")
    return 0 if kept - before >= options.count else 1
