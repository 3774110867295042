"""``clips``: what the device was taught with, and putting it right."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_client.commands import Command, Commands, local_time, open_teaching, report, set_command
from fleet_protocol.ground.command_line import confirm

if TYPE_CHECKING:
    from edge_client.clips.folders import Clip
    from edge_client.clips.store import ClipStore

_MB = 1_000_000
_TAKES_BACK = "`auricle-edge clips undo` takes it back"
_COLUMNS = "{:<24} {:>6} {:>9} {:>9}"


def add(commands: Commands) -> None:
    """Add the command and those below it."""
    clips = commands.add_parser("clips", help="list what was taught; relabel, delete, export, import it; undo that")
    clips.add_argument("--label", help="list the clips of this label one by one")
    set_command(clips, _list)
    actions = clips.add_subparsers(metavar="ACTION")

    def action(name: str, help_: str, command: Command) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=help_)
        set_command(parser, command, below=True)
        return parser

    relabel = action("relabel", "say that a clip is a sound of something else", _relabel)
    relabel.add_argument("clip", nargs="?", metavar="ID")
    relabel.add_argument("new_label", metavar="LABEL")
    relabel.add_argument("--label", default=argparse.SUPPRESS, metavar="OLD", help="all clips of this label")
    delete = action("delete", "delete clips; for a week, `clips undo` brings them back", _delete)
    delete.add_argument("--yes", action="store_true", help="do not ask")
    delete.add_argument("--for-good", action="store_true", help="at once and for good")
    chosen = delete.add_mutually_exclusive_group(required=True)
    chosen.add_argument("clips", nargs="*", default=[], metavar="ID")
    chosen.add_argument("--label", default=argparse.SUPPRESS, help="all clips of this label")
    undo = action("undo", "take back what you did last, or one change of a week", _undo)
    undo.add_argument("number", nargs="?", type=int, metavar="NUMBER", help="of --list")
    undo.add_argument("--list", action="store_true", help="list what can be taken back, the newest first")
    knows = action("knows", "listen for a built-in word or sound; without one, list them", _knows)
    knows.add_argument("sound", nargs="?", metavar="NAME")
    knows.add_argument("--label", default=argparse.SUPPRESS, metavar="LABEL", help="what you call it (its own name)")
    knows.add_argument("--off", action="store_true", help="listen for it no more, as far as you did not teach it")
    listen = action("listen", "listen for a label or not, or at some hours; without one, list what is chosen", _listen)
    listen.add_argument("sound", nargs="?", metavar="LABEL")
    on = listen.add_mutually_exclusive_group()
    on.add_argument("--off", dest="on", action="store_false", default=None, help="it costs nothing, and stays learned")
    on.add_argument("--on", dest="on", action="store_true", default=None, help="with nothing taught anew")
    listen.add_argument("--hours", nargs="*", metavar="HOURS", help="such as 07:00-22:00; without any: all day")
    export = action("export", "write takes, what is not a label, and choices to FILE, for another device", _export)
    export.add_argument("file", type=Path, metavar="FILE")
    importing = action("import", "take in what another device exported", _import)
    importing.add_argument("file", type=Path, metavar="FILE")
    purge = "remove for good what was deleted, what was counted of the room, and questions"
    action("purge", purge, _purge).add_argument("--yes", action="store_true")


def _list(options: argparse.Namespace) -> int:
    from edge_client.commands.daemon import advice_lines, known_lines, provisional_lines

    teaching = open_teaching(options)
    store = teaching.store
    if options.label is not None:
        clips = [one for clip in _of_label(store, options.label) if (one := _described(clip)) is not None]
        rows = (
            f"{one['id']:<18} {local_time(one['taken'])} {one['seconds']:6.1f} s  {one['damage']}".rstrip()
            for one in clips
        )
        return report(clips, rows, json=options.json)
    labels = sorted(teaching.own)
    found = [_summary(store, label) for label in (*labels, *store.rejected_folders())]
    used, advice = store.size_bytes() / _MB, teaching.state.advice()
    provisional = teaching.progress.provisional_labels
    quota = {"used_mb": round(used, 3), "quota_mb": teaching.config.clips.quota_mb, "folder": str(store.folder)}
    lines = (
        _COLUMNS.format("label", "clips", "seconds", "MB"),
        *(_COLUMNS.format(one["label"], one["clips"], f"{one['seconds']:.1f}", f"{one['mb']:.2f}") for one in found),
        *known_lines(teaching.chosen, {one["label"]: one["clips"] for one in found}),
        *(*advice_lines(advice), *provisional_lines(provisional)),
        f"{used:.1f} of {quota['quota_mb']:g} MB are used, in {store.folder}",
    )
    document = {"labels": found, "known": teaching.chosen, "advice": advice, "provisional": provisional}
    return report(document | quota, lines, json=options.json)


def _summary(store: ClipStore, label: str) -> dict[str, Any]:
    from edge_client.clips.store import size_of

    clips = store.clips(label)
    seconds, size = sum(map(_seconds, clips)), sum(size_of(clip.path) for clip in clips)
    return {"label": label, "clips": len(clips), "seconds": round(seconds, 3), "mb": round(size / _MB, 3)}


def _described(clip: Clip) -> dict[str, Any] | None:
    """Return what is said of a clip; None of one that was deleted since it was listed."""
    from edge_client.events import iso

    try:
        taken = iso(clip.path.stat().st_mtime)
    except FileNotFoundError:
        return None
    return {"id": clip.clip_id, "taken": taken, "seconds": round(_seconds(clip), 3), "damage": _damage(clip)}


def _seconds(clip: Clip) -> float:
    """Return a clip's length; 0 where it cannot be read, so that the list still shows it."""
    from edge_client.audio.recordings import duration_s
    from edge_client.errors import RecordingError

    try:
        return duration_s(clip.path)
    except RecordingError:
        return 0.0


def _damage(clip: Clip) -> str:
    from edge_client.audio.recordings import require_whole
    from edge_client.errors import RecordingError

    try:
        require_whole(clip.path)
    except RecordingError:
        return "DAMAGED: not learned from"
    except OSError:
        return "gone meanwhile"
    return ""


def _of_label(store: ClipStore, label: str) -> list[Clip]:
    """Return the clips of a label or reserved folder; there are some."""
    from edge_client.errors import ClipError

    if found := store.clips(label):
        return found
    labels = (*store.labels(), *store.rejected_folders())
    raise ClipError(f"there is no clip of {label!r}; labels: {', '.join(labels) or 'none'}")


def _relabel(options: argparse.Namespace) -> int:
    from edge_client.errors import ClipError
    from edge_client.owner_changes import rename, rename_class

    teaching = open_teaching(options)
    store = teaching.store
    if (options.clip is None) == (options.label is None):
        raise ClipError("name one clip, or all of a label with --label OLD, and then the new label")
    if options.label is not None and teaching.class_of(options.label) is not None:
        at_once = rename_class(teaching, options.label, options.new_label)
        when = "now" if at_once else "once the present training has ended"
        line = f"the fleet's {options.label!r} is {options.new_label!r} {when}; {_TAKES_BACK}"
        return report([{"was": options.label, "is": options.new_label}], [line], json=options.json)
    chosen = [store.find(options.clip)] if options.label is None else _of_label(store, options.label)
    moved, forgotten = rename(teaching, chosen, teaching.require_slot(options.new_label))
    pairs = [(clip.label, now) for clip, now in zip(chosen, moved, strict=True)]
    lines = (f"{clip.clip_id}: {former!r} is {clip.label!r} now" for former, clip in pairs)
    document = [{"id": clip.clip_id, "was": former, "is": clip.label} for former, clip in pairs]
    return report(document, (*lines, *forgotten, _TAKES_BACK), json=options.json)


def _undo(options: argparse.Namespace) -> int:
    from edge_client.errors import ClipError
    from edge_client.events import iso
    from edge_client.owner_undo import changes, undo

    teaching = open_teaching(options)
    found = changes(teaching)
    if options.list:
        listed = [{"number": one.number, "at": iso(one.at), "what": one.words} for one in found]
        rows = [f"{one.number:>4}  {local_time(iso(one.at))}  {one.words}" for one in found]
        return report(listed, rows or ["nothing was done within a week"], json=options.json)
    if options.number is not None:
        chosen = [one for one in found if one.number == options.number]
    else:
        chosen = [one for one in found if not one.is_undo]  # else a second undo would undo the first
    if not chosen:
        which = "" if options.number is None else f" of number {options.number}; `clips undo --list` lists them"
        raise ClipError(f"there is nothing to undo: nothing was done within a week{which}")
    count = undo(teaching, chosen[0])
    lines = [f"taken back: {chosen[0].words}", *([teaching.after()] if count else [])]
    document = {"undone": chosen[0].kind, "label": chosen[0].label, "clips": count}
    return report(document, lines, json=options.json)


def _knows(options: argparse.Namespace) -> int:
    from edge_client.owner_changes import know, know_no_more

    teaching = open_teaching(options)
    if options.sound is None:
        names = ", ".join(teaching.offered) or "nothing: words, sounds_2s and words_and_sounds do"
        chosen = {"known": teaching.offered, "chosen": teaching.chosen}
        return report(chosen, [f"built into {teaching.config.bundle.stem}: {names}"], json=options.json)
    if options.off:
        lines = know_no_more(teaching, options.label or options.sound)
        return report({"label": options.label or options.sound, "sound": None}, lines, json=options.json)
    label = know(teaching, options.sound, options.label or "")
    line = f"it listens for {label!r} from now on"
    return report({"label": label, "sound": options.sound}, [line], json=options.json)


def _listen(options: argparse.Namespace) -> int:
    from edge_client.owner_changes import listen

    teaching = open_teaching(options)
    if options.sound is None:
        found = teaching.state.choices.listened()
    else:
        found = {options.sound: listen(teaching, options.sound, options.on, options.hours)}
    document = {label: {"on": one.on, "hours": one.hours} for label, one in found.items()}
    lines = [f"{label!r}: {one.words}" for label, one in sorted(found.items())]
    return report(document, lines or ["every label is listened for at all hours"], json=options.json)


def _export(options: argparse.Namespace) -> int:
    from edge_client.owner_archive import export_to

    left_out = export_to(open_teaching(options), options.file)
    size_mb = options.file.stat().st_size / _MB
    lines = [*(f"left out: {reason}" for reason in left_out)]
    lines.append(f"{options.file}, {size_mb:.1f} MB: keep it private; `auricle-edge clips import` takes it in")
    return report({"file": str(options.file), "mb": round(size_mb, 3), "left_out": left_out}, lines, json=options.json)


def _import(options: argparse.Namespace) -> int:
    from edge_client.errors import ClipError
    from edge_client.owner_archive import take_in

    teaching = open_teaching(options)
    if not options.file.is_file():
        raise ClipError(f"{options.file} is no file; give one that `auricle-edge clips export` wrote")
    with options.file.open("rb") as file:
        result = take_in(teaching, file)
    document = {"stored": dict(result.stored), "present": result.present, "left_out": result.left_out}
    after = [teaching.after(), "`auricle-edge clips undo` takes it back"] if result.stored else []
    return report(document, [*result.lines(), *after], json=options.json)


def _delete(options: argparse.Namespace) -> int:
    from edge_client.owner_changes import delete
    from edge_client.storage.owner_acts import KEEP_DAYS

    teaching = open_teaching(options)
    store = teaching.store
    chosen = [store.find(given) for given in options.clips] or _of_label(store, options.label)
    labels = ", ".join(sorted({repr(clip.label) for clip in chosen}))
    confirm(f"delete {len(chosen)} clips of {labels}{' for good' if options.for_good else ''}", yes=options.yes)
    forgotten = delete(teaching, chosen, for_good=options.for_good)
    back = "" if options.for_good else f"; `auricle-edge clips undo` brings them back for {KEEP_DAYS:g} days"
    document = [{"id": clip.clip_id, "label": clip.label} for clip in chosen]
    return report(document, (f"{len(chosen)} clips deleted{back}", *forgotten), json=options.json)


def _purge(options: argparse.Namespace) -> int:
    from edge_client.owner_changes import purge

    teaching = open_teaching(options)
    confirm("remove deleted clips, what was counted of the room, and questions, for good", yes=options.yes)
    removed = purge(teaching)
    line = f"{removed} deleted clips were removed for good, and what was counted of the room, and questions"
    return report({"removed": removed}, [line], json=options.json)
