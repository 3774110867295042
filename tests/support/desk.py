"""A desk at which somebody types commands, and a free port."""

from __future__ import annotations

import random
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_PATIENCE_S = 240.0


class Desk:
    """A folder in which somebody types commands. What is left running is ended by :meth:`close`."""

    def __init__(self, folder: Path, program: Callable[[str], Sequence[str]], environment: dict[str, str]) -> None:
        """Prepare; ``program``: (name of a program) -> arguments that run it."""
        self.folder = folder
        self._program = program
        self._environment = environment
        self._running: list[subprocess.Popen[str]] = []

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line to its end."""
        given = {"cwd": self.folder, "env": self._environment, "timeout": _PATIENCE_S}
        return subprocess.run(self._arguments(line), capture_output=True, text=True, check=False, **given)

    def leave_running(self, line: str, log: str) -> subprocess.Popen[str]:
        """Start a line in another terminal, whose text is in a file; return its process."""
        with (self.folder / log).open("w") as text:
            process = subprocess.Popen(
                self._arguments(line), cwd=self.folder, stdout=text, stderr=text, text=True, env=self._environment
            )
        self._running.append(process)
        return process

    def wait_for(self, log: str, words: str) -> None:
        """Wait until a terminal shows some words. Raises RuntimeError: it does not."""
        deadline = time.monotonic() + _PATIENCE_S
        while words not in (self.folder / log).read_text():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{log} does not say {words!r}: {(self.folder / log).read_text()}")
            time.sleep(0.1)

    def close(self) -> None:
        """End what runs."""
        for process in reversed(self._running):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._running):
            process.wait(_PATIENCE_S)

    def _arguments(self, line: str) -> list[str]:
        name, *rest = shlex.split(line)
        return [*self._program(name), *rest]


def next_commands(text: str) -> tuple[str, str, str]:
    """Return what ``auricle-aggregator new`` says to type: the server's, a device's and the round's command."""
    lines = [line.strip() for line in text.splitlines()]
    begins = ("auricle-aggregator run", "auricle-edge join", "auricle-aggregator round")
    run, join, start = (next(line for line in lines if line.startswith(begin)) for begin in begins)
    return run, join, start


def free_port() -> int:
    """Return a port that nobody listens on, and that the system gives to nobody who asks for any."""
    for port in random.SystemRandom().sample(range(12_000, 32_000), 100):  # systems draw from 32768 on
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("none of 100 ports between 12000 and 32000 is free")
