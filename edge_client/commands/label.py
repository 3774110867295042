"""``label``: unknown sounds that the device heard lately, and names for them."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edge_client.commands import add_config, add_json
from edge_client.commands.waiting import add_wait, wait_until_learned
from fleet_protocol.command_line import print_json

if TYPE_CHECKING:
    from edge_client.clips.unknown_clips import UnknownClip
    from edge_client.commands import Commands
    from edge_client.owner import Teaching


def add(commands: Commands) -> None:
    """Add the command."""
    label = commands.add_parser("label", help="list the unknown sounds that were heard, or name some of them")
    label.add_argument("words", nargs="*", metavar="ID... NAME", help="these are sounds of NAME; nothing: list them")
    label.add_argument("--not", dest="rejected", metavar="NAME", help="these are NOT sounds of NAME, but resemble them")
    label.add_argument("--play", metavar="ID", help="play one")
    add_wait(label)
    add_json(label)
    add_config(label)
    label.set_defaults(command=_label)


def _label(options: argparse.Namespace) -> int:
    from edge_client.errors import ClipError
    from edge_client.owner import Teaching

    teaching = Teaching.open(options.config)
    if options.play is not None:
        from edge_client.capture.playback import play

        play(teaching.unknown.find(options.play).path, teaching.settings.sample_rate_hz)
        return 0
    if not options.words:
        return _list(teaching, json=options.json)
    if options.rejected is not None:
        folder = teaching.require_rejectable(options.rejected)
        return _take_in(teaching, options.words, folder, options)
    if len(options.words) == 1:
        raise ClipError(f"{options.words[0]!r} alone says too little: give one or more identifiers, then a name")
    return _take_in(teaching, options.words[:-1], teaching.require_slot(options.words[-1]), options)


def _take_in(teaching: Teaching, given: list[str], folder: str, options: argparse.Namespace) -> int:
    """Move unknown sounds into a folder of the store."""
    sounds = [teaching.unknown.find(start) for start in given]
    teaching.take_in(sounds, folder)
    altogether = len(teaching.store.clips(folder))
    if options.wait:
        wait_until_learned(teaching)
    if options.json:
        print_json({"label": folder, "more": len(sounds), "clips": altogether})
    else:
        after = "" if options.wait else f" {teaching.after()}"
        print(f"{len(sounds)} clips of {folder!r} more, {altogether} altogether.{after}")
    return 0


def _list(teaching: Teaching, *, json: bool) -> int:
    found = [_described(teaching, sound) for sound in teaching.unknown.sounds()]
    if json:
        print_json(found)
        return 0
    for item in found:
        heard = item["heard"].replace("T", " ")
        level = item["damage"] or f"{item['level_db']:4.0f} dB  best score {item['score']:.2f}"
        print(f"{item['id']}  {heard}  {level}")
    if not found:
        print("no unknown sounds were heard lately")
    return 0


def _described(teaching: Teaching, sound: UnknownClip) -> dict[str, Any]:
    from edge_client.audio.recordings import read_recording
    from edge_client.clips.take_check import levels_db
    from edge_client.errors import RecordingError

    rate = teaching.settings.sample_rate_hz
    heard = datetime.fromtimestamp(sound.heard_at).isoformat(timespec="seconds")
    item = {"id": sound.clip_id, "heard": heard, "score": sound.score, "level_db": None, "damage": ""}
    try:
        return item | {"level_db": round(float(levels_db(read_recording(sound.path, rate), rate).max()), 1)}
    except RecordingError as error:
        return item | {"damage": str(error)}
