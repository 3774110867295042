"""The command line of `make demo`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bundles import ROOT
from benchmarks.demo import DemoError
from benchmarks.demo.corpus import cached
from benchmarks.demo.deal import KEYWORDS, deal
from benchmarks.demo.display import Display
from benchmarks.demo.federation import Options, run
from benchmarks.demo.fleets import PRETRAINED, PUBLISHED
from benchmarks.demo.paper import NEW_CLASS_ROUNDS, ROUNDS, new_class_rounds
from benchmarks.demo.report import write_report
from benchmarks.demo.result import Result
from benchmarks.demo.split import Split, read_labels, split
from benchmarks.demo.tables import accuracy_table, course_table, discovery_table, listening_table, recognition_table
from edge_client.audio.recordings import FORMATS
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.errors import AuricleError

_BUILD = ROOT / "build"
_TAKES = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 0, 1 where something failed, 2 where it cannot run on what it was given."""
    started = time.monotonic()
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = _BUILD / "demo" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    try:
        source, parts = _recordings(options)
    except AuricleError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    try:
        results = []
        for kind in (PUBLISHED, PRETRAINED):
            with Display(options.rounds) as display:
                order = Options(options.rounds, options.seed, dict(options.set), folder / kind.key, started)
                results.append(run(order, kind, source, parts, display))
            if kind.strategy is not None:  # else there is no consensus
                for table in (accuracy_table, course_table):
                    display.table(table(results[-1]))
        write_report(options.report, results)
        if options.json:
            document = results[0].to_json() | {PRETRAINED.key: results[1].to_json()}
            write_durably(options.json, json.dumps(document, indent=1).encode(), mode=0o644)
        return _conclude(display, results, options, folder)
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
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="recordings, LABEL/*.wav|flac|ogg|mp3; else speech is synthesised"
    )
    parser.add_argument("--new", metavar="A,B", help="the two labels that appear on the way (the last two)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--report", type=Path, default=Path("report.html"), metavar="FILE", help="(report.html)")
    parser.add_argument("--rounds", type=_rounds, default=ROUNDS, help=f"3 or more ({ROUNDS})")
    parser.add_argument("--seed", type=_natural, default=0, help="of everything random (0)")
    parser.add_argument(
        "--set", action="append", type=_setting, default=[], metavar="NAME=VALUE",
        help="a setting of the published fleet's local method instead of its default; repeatable",
    )  # fmt: skip
    parser.add_argument("--speakers", type=_natural, default=180, help="of the synthesised corpus (180)")
    return parser


def _rounds(text: str) -> int:
    if int(text) < 3:
        raise argparse.ArgumentTypeError(f"the schedule needs at least 3 rounds, not {text}")
    return int(text)


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must look like epochs=8, not {text!r}") from error


def _natural(text: str) -> int:
    if int(text) < 0:
        raise argparse.ArgumentTypeError(f"must not be negative: {text}")
    return int(text)


def _recordings(options: argparse.Namespace) -> tuple[str, Split]:
    """Return where the recordings are from, and how they are dealt out.

    Raises:
        AuricleError: too few labels or recordings, or they cannot be read.
    """
    if options.data:
        folder, source = options.data, str(options.data)
        if not folder.is_dir():
            raise DemoError(f"DATA={folder} is no folder; it must hold <label>/*{FORMATS}")
    else:
        folder = cached(_BUILD, KEYWORDS, options.speakers, _TAKES, options.seed)
        source = f"speech synthesised by espeak-ng, {options.speakers} voices"
    clips = read_labels(folder)
    new = [name.strip() for name in options.new.split(",")] if options.new else None
    parts = split(clips, deal(list(clips), new), options.seed)
    rounds = dict(zip(NEW_CLASS_ROUNDS, new_class_rounds(options.rounds), strict=True))
    arrivals = (dataclasses.replace(item, round_number=rounds[item.round_number]) for item in parts.arrivals)
    return source, dataclasses.replace(parts, arrivals=tuple(arrivals))


def _conclude(display: Display, results: Sequence[Result], options: argparse.Namespace, folder: Path) -> int:
    """Print the tables that hold both fleets against one another, and the verdict; return the exit status."""
    for table in (listening_table, discovery_table, recognition_table):
        display.table(table(results))
    written = [str(options.report), *([str(options.json)] if options.json else [])]
    display.console.print(f"\nwritten: {', '.join(written)}; logs: {folder}; {results[-1].seconds:.0f} s", markup=False)
    wrong = [(result.kind.title, item) for result in results for item in result.new_classes if not item.matched]
    for title, item in wrong:
        problem = (
            "was not found" if item.class_id is None else "was found, but the devices' reports were not matched rightly"
        )
        print(f"demo: FAILED: {title}: the new sound {item.label!r} {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
