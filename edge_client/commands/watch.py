"""``watch``: what the daemon hears at this moment, in the terminal."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edge_client.commands import Commands, set_command

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Group

    from edge_client.live import Moment

_TIMEOUT_S = 1.0
# Seconds between two plain lines without an event.
_LINE_S = 1.0
_EVENTS, _BAR = 8, 30


def add(commands: Commands) -> None:
    """Add the command."""
    watch = commands.add_parser("watch", help="show level, scores and events of the daemon, live (Ctrl-C ends it)")
    watch.add_argument("--json", action="store_true", help="a JSON object a line, with the spectrum in base64")
    set_command(watch, _watch, json=False)


def _watch(options: argparse.Namespace) -> int:
    from edge_client.config import load_config

    state = load_config(options.config).device.state
    if options.json:
        _print_json(state)
    elif sys.stdout.isatty():
        _draw(state)
    else:
        _print_lines(state)
    return 0


def _moments(folder: Path) -> Iterator[Moment | None]:
    """Yield every hop, and None about once a second while no sound comes. Raises StateError if no daemon runs."""
    from edge_client.errors import StateError
    from edge_client.live.feed import LiveReader
    from edge_client.storage.device_state import DeviceState

    reader, state = LiveReader(folder), DeviceState(folder)
    try:
        while True:
            moment = reader.read(_TIMEOUT_S)
            if moment is None and not reader.connected and not state.locked("daemon"):
                raise StateError(f"no daemon runs with the state folder {folder}; start it with: auricle-edge run")
            yield moment
    finally:
        reader.close()


def _print_json(folder: Path) -> None:
    for moment in _moments(folder):
        if moment is not None:
            print(json.dumps(moment.to_json()), flush=True)


def _print_lines(folder: Path) -> None:
    """Print every event, and a line a second with the level and the highest score."""
    printed = time.monotonic() - _LINE_S
    for moment in _moments(folder):
        if moment is None:
            print("no sound: the microphone is lent to a recorder, or silent (`auricle-edge status`)", flush=True)
            continue
        for event in moment.heard:
            print(_event_line(event), flush=True)
        if time.monotonic() - printed >= _LINE_S:
            printed = time.monotonic()
            best = max(moment.scores, key=moment.scores.__getitem__, default=None)
            score = f"  {best} {moment.scores[best]:.2f}" if best is not None else ""
            print(f"{_clock(moment.time)}  {moment.level_db:4.0f} dB{score}", flush=True)


def _draw(folder: Path) -> None:
    from rich.live import Live

    events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
    with Live(auto_refresh=False) as live:
        for moment in _moments(folder):
            if moment is not None:
                events.extendleft(moment.heard)
            live.update(_picture(moment, events), refresh=True)


def _picture(moment: Moment | None, events: deque[dict[str, Any]]) -> Group:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    if moment is None:
        table.add_row(Text("no sound: the microphone is lent to a recorder, or silent (auricle-edge status)"))
    else:
        share = 100 * min(1.0, max(0.0, 1 + moment.level_db / 60))
        table.add_row("level", ProgressBar(100, share, width=_BAR), f"{moment.level_db:.0f} dB")
        for label, score in sorted(moment.scores.items(), key=lambda pair: -pair[1]):
            heard = score >= moment.thresholds[label]
            bar = ProgressBar(100, 100 * score, width=_BAR, complete_style="green" if heard else "cyan")
            table.add_row(Text(label), bar, f"{score:.2f} of {moment.thresholds[label]:.2f}")
    return Group(table, *(Text(_event_line(event)) for event in events))


def _event_line(event: dict[str, Any]) -> str:
    at = _clock(datetime.fromisoformat(event["time"]).timestamp())
    return f"{at}  heard {event['label']}  score {event['score']:.2f}  {event['level_db']:.0f} dB"


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")
