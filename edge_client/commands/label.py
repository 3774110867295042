"""``label``: unknown sounds that the device heard lately, and names for them."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from edge_client.commands import add_config

if TYPE_CHECKING:
    from edge_client.commands import Commands
    from edge_client.commands.owner import Teaching


def add(commands: Commands) -> None:
    """Add the command."""
    label = commands.add_parser("label", help="list the unknown sounds that were heard, or name some of them")
    label.add_argument("words", nargs="*", metavar="ID... NAME", help="these are sounds of NAME; nothing: list them")
    label.add_argument("--not", dest="rejected", metavar="NAME", help="these are NOT sounds of NAME, but resemble them")
    label.add_argument("--play", metavar="ID", help="play one")
    add_config(label)
    label.set_defaults(command=_label)


def _label(options: argparse.Namespace) -> int:
    from edge_client.commands.owner import Teaching
    from edge_client.errors import ClipError

    teaching = Teaching.open(options.config)
    if options.play is not None:
        from edge_client.capture.playback import play

        play(teaching.unknown.find(options.play).path, teaching.settings.sample_rate_hz)
        return 0
    if not options.words:
        return _list(teaching)
    if options.rejected is not None:
        return _take_in(teaching, options.words, teaching.require_rejectable(options.rejected))
    if len(options.words) == 1:
        raise ClipError(f"{options.words[0]!r} alone says too little: give one or more identifiers, then a name")
    return _take_in(teaching, options.words[:-1], teaching.require_slot(options.words[-1]))


def _take_in(teaching: Teaching, given: list[str], folder: str) -> int:
    """Move unknown sounds into a folder of the store."""
    sounds = [teaching.unknown.find(start) for start in given]
    with teaching.store.changing():
        for sound in sounds:
            teaching.store.take_in(sound.path, folder)
    print(f"{len(sounds)} clips of {folder!r} more, {len(teaching.store.clips(folder))} altogether. {teaching.after()}")
    return 0


def _list(teaching: Teaching) -> int:
    from edge_client.audio.recordings import read_recording
    from edge_client.clips.take_check import levels_db
    from edge_client.errors import RecordingError

    rate = teaching.settings.sample_rate_hz
    for sound in teaching.unknown.sounds():
        heard = datetime.fromtimestamp(sound.heard_at).isoformat(" ", "seconds")
        try:
            level = f"{levels_db(read_recording(sound.path, rate), rate).max():4.0f} dB"
        except RecordingError as error:
            print(f"{sound.clip_id}  {heard}  {error}")
            continue
        print(f"{sound.clip_id}  {heard}  {level}  best score {sound.score:.2f}")
    if not teaching.unknown.sounds():
        print("no unknown sounds were heard lately")
    return 0
