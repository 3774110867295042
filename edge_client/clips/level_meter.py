"""How a recording session looks: a level meter on a terminal, plain lines everywhere else."""

from __future__ import annotations

from typing import TextIO

from edge_client.clips.recorder import Step

_WIDTH = 30
_LOWEST_DB = -60.0


class Lines:
    """A :class:`edge_client.clips.recorder.Display` for pipes and logs."""

    def __init__(self, out: TextIO) -> None:
        """Write to a stream."""
        self._out = out

    def step(self, step: Step) -> None:
        """Do nothing: every step is said as well."""

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=self._out, flush=True)

    def level(self, text: str, level_db: float) -> None:
        """Show nothing: a line for every tenth of a second would help nobody."""


class LevelMeter(Lines):
    """A :class:`edge_client.clips.recorder.Display` for terminals: one line that is drawn again and again."""

    def say(self, text: str) -> None:
        """Write a line in place of the meter."""
        super().say(f"\r\x1b[K{text}")

    def level(self, text: str, level_db: float) -> None:
        """Draw the meter."""
        print(f"\r\x1b[K{bar(level_db)} {level_db:4.0f} dB  {text}", end="", file=self._out, flush=True)


def bar(level_db: float) -> str:
    """Return a bar that is empty at -60 dB and full at 0 dB."""
    filled = round(_WIDTH * min(1.0, max(0.0, 1.0 - level_db / _LOWEST_DB)))
    return "[" + "#" * filled + " " * (_WIDTH - filled) + "]"


def display_for(out: TextIO) -> Lines:
    """Return what suits a stream."""
    return LevelMeter(out) if out.isatty() else Lines(out)
