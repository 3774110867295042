"""``clips``: what the device was taught with, and putting it right."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from edge_client.commands import add_config

if TYPE_CHECKING:
    from edge_client.clips.files import Clip
    from edge_client.commands import Command, Commands

_MB = 1_000_000
_COLUMNS = "{:<24} {:>6} {:>9} {:>9}"


def add(commands: Commands) -> None:
    """Add the command and those below it."""
    clips = commands.add_parser("clips", help="list what was taught; play, relabel or delete it")
    clips.add_argument("--label", help="list the clips of this label one by one")
    add_config(clips)
    clips.set_defaults(command=_list)
    actions = clips.add_subparsers(metavar="ACTION")

    def action(name: str, help_: str, command: Command) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=help_)
        # Given before the action or behind it; behind it wins, and its absence there must not undo the former.
        add_config(parser)
        parser.set_defaults(command=command, config=argparse.SUPPRESS)
        return parser

    action("play", "play a clip", _play).add_argument("clip", metavar="ID")
    relabel = action("relabel", "say that a clip is a sound of something else", _relabel)
    relabel.add_argument("clip", nargs="?", metavar="ID")
    relabel.add_argument("new_label", metavar="LABEL")
    relabel.add_argument("--label", default=argparse.SUPPRESS, metavar="OLD", help="all clips of this label")
    delete = action("delete", "delete clips for good", _delete)
    chosen = delete.add_mutually_exclusive_group(required=True)
    chosen.add_argument("clips", nargs="*", default=[], metavar="ID")
    chosen.add_argument("--label", default=argparse.SUPPRESS, help="all clips of this label")


def _list(options: argparse.Namespace) -> int:
    from edge_client.commands.owner import Teaching
    from edge_client.commands.status import expected_lines, provisional_lines

    teaching = Teaching.open(options.config)
    store = teaching.store
    if options.label is not None:
        for clip in store.clips(options.label):
            taken = datetime.fromtimestamp(clip.path.stat().st_mtime).isoformat(" ", "seconds")
            print(f"{clip.clip_id:<18} {taken} {_seconds(clip):6.1f} s{_damage(clip)}")
        return 0
    print(_COLUMNS.format("label", "clips", "seconds", "MB"))
    for label in (*store.labels(), *store.rejected_folders()):
        clips = store.clips(label)
        seconds, size = sum(map(_seconds, clips)), sum(clip.path.stat().st_size for clip in clips)
        print(_COLUMNS.format(label, len(clips), f"{seconds:.1f}", f"{size / _MB:.2f}"))
    for line in (*expected_lines(teaching.state.expectations()), *provisional_lines(teaching.provisional)):
        print(line)
    print(f"{store.size_bytes() / _MB:.1f} of {teaching.config.clips.quota_mb:g} MB are used, in {store.folder}")
    return 0


def _seconds(clip: Clip) -> float:
    """Return a clip's length; 0 where it cannot be read, so that the list still shows it."""
    import soundfile

    try:
        return float(soundfile.info(clip.path).duration)
    except (soundfile.SoundFileError, OSError):
        return 0.0


def _damage(clip: Clip) -> str:
    from edge_client.audio.wave_files import require_whole
    from edge_client.errors import RecordingError

    try:
        require_whole(clip.path)
    except RecordingError:
        return "  DAMAGED: not learned from"
    except OSError:
        return "  gone meanwhile"
    return ""


def _play(options: argparse.Namespace) -> int:
    from edge_client.capture.playback import play
    from edge_client.commands.owner import Teaching

    teaching = Teaching.open(options.config)
    play(teaching.store.find(options.clip).path, teaching.settings.sample_rate_hz)
    return 0


def _relabel(options: argparse.Namespace) -> int:
    from edge_client.commands.owner import Teaching
    from edge_client.errors import ClipError

    teaching = Teaching.open(options.config)
    store = teaching.store
    if (options.clip is None) == (options.label is None):
        raise ClipError("name one clip, or all of a label with --label OLD, and then the new label")
    chosen = [store.find(options.clip)] if options.label is None else store.clips(options.label)
    if not chosen:
        raise ClipError(f"there is no clip of {options.label!r}; labels: {', '.join(store.labels()) or 'none'}")
    label = teaching.require_slot(options.new_label)
    with store.changing():
        for clip in chosen:
            moved = store.relabel(clip, label)
            print(f"{moved.clip_id}: {clip.label!r} is {moved.label!r} now")
    return 0


def _delete(options: argparse.Namespace) -> int:
    from edge_client.commands.owner import Teaching
    from edge_client.errors import ClipError

    teaching = Teaching.open(options.config)
    store = teaching.store
    chosen = [store.find(given) for given in options.clips] or store.clips(options.label)
    if not chosen:
        raise ClipError(f"there is no clip of {options.label!r}; labels: {', '.join(store.labels()) or 'none'}")
    with store.changing():
        for clip in chosen:
            store.delete(clip)
    teaching.forget_deleted()
    print(f"{len(chosen)} clips deleted")
    return 0
