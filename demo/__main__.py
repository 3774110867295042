"""The command line of `make demo`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from demo import DemoError
from demo.corpus import EVERYDAY_SOUNDS, cached
from demo.devices import FleetKind
from demo.play import PRETRAINED, PUBLISHED, SOUNDS, play
from demo.report import Terminal, discovery_table, listening_table, write_page
from demo.split import KEYWORDS, LEAST_ROUNDS, ROUNDS, Split, deal, new_sound_rounds, read_labels, split
from edge_client.audio.recordings import FORMATS
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.atomic_files import write_durably

_BUILD = Path(__file__).resolve().parent.parent / "build"
_TAKES, _SOURCES = 2, 60
_FLEETS = (PUBLISHED, PRETRAINED, SOUNDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 0, 1 where something failed, 2 where it cannot run on what it was given."""
    started = time.monotonic()
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = _BUILD / "demo" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    try:
        with ThreadPoolExecutor(2) as threads:  # each synthesis is a process of its own
            found = threads.submit(_words, options), threads.submit(_sounds, options)
            words, sounds = (one.result() for one in found)
    except AuricleError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    if sys.dont_write_bytecode:  # two hundred processes start, and would compile for a third of that
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(_BUILD / "bytecode")}
    try:
        terminal = Terminal()
        rounds = {kind: max(LEAST_ROUNDS, round(kind.share * options.rounds)) for kind in _FLEETS}
        setting = [
            "{}: {} rounds, new sounds before rounds {} and {}".format(kind.key, count, *new_sound_rounds(count))
            for kind, count in rounds.items()
        ]
        setting += [line for source, parts in (words, sounds) for line in parts.described(source)]
        for line in setting:
            terminal.say("", line)
        stop = threading.Event()

        def played(kind: FleetKind) -> dict[str, Any]:
            _, parts = sounds if kind is SOUNDS else words
            figures = play(kind, parts, rounds[kind], options.seed, folder / kind.key, terminal, stop)
            return figures | {"seconds": time.monotonic() - started}

        with ThreadPoolExecutor(len(_FLEETS)) as threads:  # at the same time: each waits a while in every round
            playing = {kind.key: threads.submit(played, kind) for kind in _FLEETS}
            try:
                wait(playing.values(), return_when=FIRST_EXCEPTION)
                fleets = {key: one.result() for key, one in playing.items() if one.done()}
            finally:
                stop.set()  # where one failed, or somebody presses Ctrl-C, all end
        tables = [listening_table(fleets), discovery_table(fleets)]
        for table in tables:
            terminal.table(table)
        write_page(options.report, _FLEETS, setting, fleets, tables)
        if options.json:
            document = fleets[PUBLISHED.key] | {kind.key: fleets[kind.key] for kind in _FLEETS[1:]}
            write_durably(options.json, json.dumps(document, indent=1).encode(), mode=0o644)
        written = ", ".join(map(str, filter(None, (options.report, options.json))))
        terminal.say("", f"\nwritten: {written}; logs: {folder}; {time.monotonic() - started:.0f} s")
        return _verdict(fleets)
    except (AuricleError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("demo: interrupted; everything that it started was stopped", file=sys.stderr)
    print(f"demo: FAILED; logs are in {folder}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make demo", description="Three devices with different models and labels learn sounds together."
    )
    add = parser.add_argument
    add("--data", type=Path, metavar="FOLDER", help="recordings, LABEL/*.wav|flac|ogg|mp3; else speech is synthesised")
    add("--new", metavar="A,B", help="the two words that appear on the way (the last two)")
    add("--sounds", type=Path, metavar="FOLDER", help="the third fleet's recordings; else sounds are synthesised")
    add("--json", type=Path, metavar="FILE", help="write the figures there")
    add("--report", type=Path, default=Path("report.html"), metavar="FILE", help="(report.html)")
    of = f"{LEAST_ROUNDS} or more ({ROUNDS}); half on pretrained front ends"
    add("--rounds", type=_at_least(LEAST_ROUNDS), default=ROUNDS, help=of)
    add("--seed", type=_at_least(0), default=0, help="of everything random (0)")
    add("--speakers", type=_at_least(0), default=120, help="of the synthesised words (120)")
    return parser


def _at_least(least: int) -> Any:  # noqa: ANN401  (what argparse calls with the text)
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, not {text}")
        return int(text)

    return number


def _words(options: argparse.Namespace) -> tuple[str, Split]:
    """Return where the recordings of words are from, and how they are dealt out."""
    source = options.data or f"speech synthesised by espeak-ng, {options.speakers} voices"
    folder = options.data or cached(_BUILD, KEYWORDS, options.speakers, _TAKES, options.seed)
    return str(source), _dealt(folder, options, options.new)


def _sounds(options: argparse.Namespace) -> tuple[str, Split]:
    """Return where the recordings of everyday sounds are from, and how they are dealt out."""
    source = options.sounds or f"synthesised everyday sounds, {_SOURCES} sources of each"
    folder = options.sounds or cached(_BUILD, EVERYDAY_SOUNDS, _SOURCES, _TAKES, options.seed, sounds=True)
    return str(source), _dealt(folder, options)


def _dealt(folder: Path, options: argparse.Namespace, new: str | None = None) -> Split:
    if not folder.is_dir():
        raise DemoError(f"{folder} is no folder; it must hold <label>/*{FORMATS}")
    clips = read_labels(folder)
    chosen = [name.strip() for name in new.split(",")] if new else None
    return split(clips, deal(list(clips), chosen), options.seed)


def _verdict(fleets: Mapping[str, Mapping[str, Any]]) -> int:
    wrong = [(key, new) for key, figures in fleets.items() for new in figures["new_classes"] if not new["matched"]]
    for key, new in wrong:
        found = "was not found" if new["round"] is None else "was found, but not matched rightly"
        print(f"demo: FAILED: {key}: the new sound {new['label']!r} {found}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
