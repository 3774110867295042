"""``record``, ``import``, ``label``: teach by takes, recordings from elsewhere, names for what was heard; ``learn``;
``public-set``, a fleet's public set of recordings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_client.commands import Commands, local_time, open_teaching, report, set_command
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.errors import printable
from fleet_protocol.ground.command_line import INTERRUPTED, print_json

if TYPE_CHECKING:
    from edge_client.clips.importing import Summary
    from edge_client.clips.unknown_clips import UnknownClip
    from edge_client.owner import Teaching


def add(commands: Commands) -> None:
    """Add the commands."""
    record = commands.add_parser("record", help="teach a sound: record some takes of it")
    record.add_argument("--label", required=True, help="what it is a sound of")
    record.add_argument("--count", type=int, default=20, metavar="N", help="how many good takes (20)")
    record.add_argument("--seconds", type=float, metavar="S", help="length of a take (a second more than a clip)")
    record.add_argument("--quiet", action="store_true", help="without a beep before a take and a sound after it")
    set_command(record, _record)
    importing = commands.add_parser("import", help="teach sounds: take recordings over from a folder")
    importing.add_argument("folder", type=Path, metavar="DIR|FILE", help="holds LABEL/*.wav|flac|ogg|opus|mp3")
    meaning = importing.add_mutually_exclusive_group()
    meaning.add_argument("--label", help="what FILE, or all files that lie in DIR itself, are a sound of")
    meaning.add_argument("--not", dest="rejected", metavar="LABEL", help="what they are NOT, but resemble")
    set_command(importing, _import)
    label = commands.add_parser("label", help="list the unknown sounds that were heard, or name some of them")
    label.add_argument("words", nargs="*", metavar="ID... NAME", help="these are sounds of NAME; nothing: list them")
    label.add_argument("--not", dest="rejected", metavar="NAME", help="these are NOT sounds of NAME, but resemble them")
    set_command(label, _label)
    public = commands.add_parser("public-set", help="compute a fleet's public set from a folder of recordings")
    public.add_argument("folder", type=Path, help="clips as LABEL/*.wav|flac|ogg|opus|mp3")
    features = public.add_mutually_exclusive_group()
    features.add_argument("--features", choices=sorted(PRESETS), default="gudur", help="a preset (gudur)")
    features.add_argument("--bundle", metavar="NAME|FILE", help="the features of this bundle instead")
    clips = "clips of each label (300); auto: as many as the rarest label has, at most 100"
    public.add_argument("--per-label", type=_count, default=300, metavar="N", help=clips)
    public.add_argument("--labels", metavar="A,B", help="only these labels (all)")
    public.add_argument("--seed", type=int, default=0, help="of the choice of clips (0)")
    public.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    set_command(public, _public_set, config=False)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[float, int], None]]:
    """Show a bar on a terminal while the body works; yield what it calls with how much is done, and of how much."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _record(options: argparse.Namespace) -> int:
    from edge_client.capture.playback import Cues
    from edge_client.clips.recorder import display_for, record_takes

    teaching = open_teaching(options)
    label = teaching.require_slot(options.label)
    display = display_for(sys.stderr if options.json else sys.stdout)
    before, interrupted = len(teaching.store.clips(label)), False
    try:
        cues, what = None if options.quiet else Cues(), (teaching.config, teaching.settings, teaching.store)
        record_takes(*what, label, options.count, options.seconds, display, cues)
    except KeyboardInterrupt:
        display.say("stopped")
        interrupted = True
    kept = len(teaching.store.clips(label))
    if options.json:
        print_json({"label": label, "kept": kept - before, "clips": kept})
    else:
        display.say(f"{kept - before} takes were kept; {label!r} has {kept}. {teaching.after()}")
    if interrupted:
        return INTERRUPTED
    return 0 if kept - before >= options.count else 1


def _import(options: argparse.Namespace) -> int:
    from edge_client.clips.importing import Summary
    from edge_client.owner_changes import import_recordings

    teaching = open_teaching(options)
    label, check = options.label, teaching.require_slot
    if options.rejected is not None:
        label, check = options.rejected, teaching.require_rejectable
    summary = Summary()
    try:
        with _progress("importing") as advance:
            import_recordings(teaching, options.folder, label, check, summary, advance)
    except KeyboardInterrupt:
        _print(summary, "Interrupted; the same command goes on from there.", json=options.json)
        return INTERRUPTED
    _print(summary, teaching.after() if summary.stored else "", json=options.json)
    return 1 if summary.refused and not summary.stored and not summary.present else 0


def _print(summary: Summary, after: str, *, json: bool) -> None:
    if json:
        refused = {str(path): reason for path, reason in summary.refused.items()}
        print_json({"stored": dict(summary.stored), "present": summary.present, "refused": refused})
        return
    for path, reason in summary.refused.items():
        print(printable(f"refused {path}: {reason}"), file=sys.stderr)
    for label, count in sorted(summary.stored.items()):
        print(f"{label}: {count} clips")
    counts = f"{summary.stored.total()} stored, {summary.present} were there already, {len(summary.refused)} refused."
    print(f"{counts} {after}".rstrip())


def _label(options: argparse.Namespace) -> int:
    from edge_client.errors import ClipError

    teaching = open_teaching(options)
    if not options.words:
        return _list(teaching, json=options.json)
    if options.rejected is not None:
        folder = teaching.require_rejectable(options.rejected)
        return _take_in(teaching, options.words, folder, options)
    if len(options.words) == 1:
        raise ClipError(f"{options.words[0]!r} alone says too little: give one or more identifiers, then a name")
    return _take_in(teaching, options.words[:-1], teaching.require_slot(options.words[-1]), options)


def _take_in(teaching: Teaching, given: list[str], folder: str, options: argparse.Namespace) -> int:
    from edge_client.owner_changes import say

    sounds = [teaching.unknown.find(start) for start in given]
    say(teaching, folder, sounds, events=[("unknown", round(1e3 * sound.heard_at)) for sound in sounds])
    altogether = len(teaching.store.clips(folder))
    line = f"{len(sounds)} clips of {folder!r} more, {altogether} altogether. {teaching.after()}"
    return report({"label": folder, "more": len(sounds), "clips": altogether}, [line], json=options.json)


def _list(teaching: Teaching, *, json: bool) -> int:
    found, lines = [_described(teaching, sound) for sound in teaching.unknown.sounds()], []
    for item in found:
        level = item["damage"] or f"{item['level_db']:4.0f} dB  best score {item['score']:.2f}"
        perhaps = f"  perhaps: {item['guess']}" if item["guess"] else ""
        lines.append(f"{item['id']}  {local_time(item['heard'])}  {level}{perhaps}")
    return report(found, lines or ["no unknown sounds were heard lately"], json=json)


def _described(teaching: Teaching, sound: UnknownClip) -> dict[str, Any]:
    from edge_client.audio.level import levels_db
    from edge_client.audio.recordings import read_recording
    from edge_client.errors import RecordingError
    from edge_client.events import iso
    from edge_client.events.history import event_at

    rate = teaching.settings.sample_rate_hz
    event = event_at(teaching.state.database, "unknown", round(1e3 * sound.heard_at))
    item = {"id": sound.clip_id, "heard": iso(sound.heard_at), "score": sound.score, "level_db": None, "damage": ""}
    item["guess"] = "" if event is None else event.guess
    try:
        return item | {"level_db": round(float(levels_db(read_recording(sound.path, rate), rate).max()), 1)}
    except RecordingError as error:
        return item | {"damage": str(error)}


def _count(text: str) -> int | None:
    return None if text == "auto" else int(text)


def _public_set(options: argparse.Namespace) -> int:
    from edge_client.clips.public_set import build_public_set
    from edge_client.errors import ConfigError
    from fleet_protocol.bundle.bundle_file import read_bundle
    from fleet_protocol.bundle.ready_bundles import find_bundle
    from fleet_protocol.ground.atomic_files import write_durably

    if options.seed < 0:
        raise ConfigError(f"--seed must be at least 0, not {options.seed}")
    settings = PRESETS[options.features]
    if options.bundle is not None:
        settings = read_bundle(find_bundle(options.bundle)).manifest.feature_settings
    labels = options.labels.split(",") if options.labels else None
    with _progress("computing features") as advance:
        public_set = build_public_set(options.folder, settings, labels, options.per_label, options.seed, advance)
    write_durably(options.output, public_set.pack(), mode=0o644)
    count, classes = len(public_set.labels), public_set.class_ids
    document = {"file": str(options.output), "clips": count, "classes": classes}
    return report(document, [f"{options.output}: {count} clips of {', '.join(classes)}"], json=options.json)
