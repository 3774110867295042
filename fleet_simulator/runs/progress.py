"""How a run goes: a line for each round."""

from __future__ import annotations

import time
from typing import Any, TextIO

_LINES_EVERY_S = 1.0


class Progress:
    """Told how a run goes; says so in a line for each round, at most one a second, and the last one always."""

    def __init__(self, out: TextIO | None = None) -> None:
        """``out``: where the lines go; None: nowhere."""
        self._out = out
        self._rounds = 0
        self._accuracy: float | None = None
        self._printed = -_LINES_EVERY_S

    def begin(self, rounds: int, finished: int) -> None:
        """Say what is there already: the first round to be done is ``finished + 1`` of ``rounds``."""
        self._rounds = rounds
        if finished and self._out:
            print(f"going on after round {finished} of {rounds}", file=self._out, flush=True)

    def round_done(self, entry: dict[str, Any], seconds: float) -> None:
        """Print the line of a round that is on the disk."""
        if not self._out:
            return
        line = self.describe(entry, seconds)
        now = time.monotonic()
        if now - self._printed >= _LINES_EVERY_S or entry["round"] == self._rounds:
            print(line, file=self._out, flush=True)
            self._printed = now

    def describe(self, entry: dict[str, Any], seconds: float) -> str:
        """Return the round's line: accuracy as last measured, devices per second, time left at this pace."""
        self._accuracy = entry.get("accuracy", self._accuracy)
        left = round(seconds * (self._rounds - entry["round"]))
        accuracy = "" if self._accuracy is None else f"accuracy {100 * self._accuracy:5.1f} %  "
        loss = f"loss {entry['loss']:.3f}  " if "loss" in entry else ""
        return (
            f"round {entry['round']}/{self._rounds}  {accuracy}{loss}"
            f"{entry['devices'] / seconds:,.0f} devices/s  left {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        )
