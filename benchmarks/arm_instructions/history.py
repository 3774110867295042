"""What the page History reads of a large journal: runs in the emulated ARMv7 as counted.py does.

Run as `python -m benchmarks.arm_instructions.history DATABASE` under the plug-in of count.c; :func:`write` makes one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

from benchmarks.arm_instructions.counted import measure
from edge_client.events.history import begin_of, counts, names, newest, remarks
from edge_client.events.journal import Chosen
from edge_client.storage.database import Database

# In the order of their marks: the chart of two weeks, a day's newest events, labels to choose from, what is unusual.
MEASUREMENTS = ("counts", "newest", "names", "remarks")
EVENTS, _LABELS, _EVERY_S = 100_000, 12, 77.76
_SHOWN, _DAYS, _DAY = 100, 14, date(2026, 3, 20)  # as the page shows


def write(path: Path) -> None:
    """Write a journal of ninety days with a hundred thousand events of twelve labels."""
    begin = begin_of(_DAY + timedelta(days=1)) - EVENTS * _EVERY_S
    rows = [(begin + _EVERY_S * number, f"label {number % _LABELS}") for number in range(EVENTS)]
    with Database(path).changing() as connection:
        connection.executemany(
            "INSERT INTO events (time, kind, label, score, level_db, input) VALUES (?, 'detected', ?, 0.9, -30.0, '')",
            rows,
        )


def calls(path: Path) -> dict[str, Callable[[], object]]:
    """Return what is measured on such a journal."""
    database = Database(path)
    since, until = begin_of(_DAY - timedelta(days=_DAYS - 1)), begin_of(_DAY + timedelta(days=1))
    events = newest(database, Chosen(begin_of(_DAY), until), _SHOWN)
    return {
        "counts": lambda: counts(database, Chosen(since, until)),
        "newest": lambda: newest(database, Chosen(begin_of(_DAY), until), _SHOWN),
        "names": lambda: names(database, since, until),
        "remarks": lambda: remarks(database, _DAY, events),
    }


if __name__ == "__main__":
    measure(calls(Path(sys.argv[1])))
