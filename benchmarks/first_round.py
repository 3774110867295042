"""A first round on one's own recordings: the five commands of docs/first-round.md, timed in a fresh environment.

Two devices on this machine have 40 clips each of six words, the public set 40 other clips of eight (Speech Commands,
test part). The package is installed from this checkout with the libraries of `edge` and `server`.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.command import ROOT, Command, data_folder

_WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off")
_OWN = {"kitchen": _WORDS[:6], "hall": _WORDS[2:]}
_CLIPS = 40
_PATIENCE_S = 240.0


class Desk:
    """A folder in which somebody types commands. What is left running is ended by :meth:`close`."""

    def __init__(self, folder: Path, program: Callable[[str], Sequence[str]], environment: dict[str, str]) -> None:
        """Prepare.

        Args:
            program: (name of a program) -> arguments that run it.
        """
        self.folder = folder
        self._program = program
        self._environment = environment
        self._running: list[subprocess.Popen[str]] = []

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line to its end."""
        return subprocess.run(
            self._arguments(line),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
            env=self._environment,
        )

    def leave_running(self, line: str, log: str) -> None:
        """Start a line in another terminal, whose text is in a file."""
        with (self.folder / log).open("w") as text:
            self._running.append(
                subprocess.Popen(
                    self._arguments(line), cwd=self.folder, stdout=text, stderr=text, text=True, env=self._environment
                )
            )

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
            process.wait(30)

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the seconds of each step."""

    def work(_: argparse.Namespace) -> dict[str, float]:
        with tempfile.TemporaryDirectory(prefix="auricle-first-round-") as folder:
            steps = _measure(Path(folder), data_folder() / "gsc_v2_test")
        steps["together"] = sum(steps.values())
        print("\n".join(f"{name:40s}{seconds:7.1f} s" for name, seconds in steps.items()))
        return steps

    return Command("benchmarks.first_round", __doc__).run(work, arguments)


def _measure(folder: Path, data: Path) -> dict[str, float]:
    _lay_out(folder, data)
    steps: dict[str, float] = {}
    bin_ = folder / "environment" / "bin"
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", str(folder))}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    with _timed(steps, "python3 -m venv; pip install"):
        subprocess.run([sys.executable, "-m", "venv", bin_.parent], check=True)
        subprocess.run([bin_ / "pip", "install", "-q", f"{ROOT}[edge,server]"], check=True, env=environment)
    desk = Desk(folder, lambda name: [str(bin_ / name)], environment)
    try:
        with _timed(steps, "auricle-aggregator new"):
            new = desk.type(f"auricle-aggregator new --from recordings --port {free_port()}")
            new.check_returncode()
        run, join, start = next_commands(new.stdout)
        with _timed(steps, "auricle-aggregator run"):
            desk.leave_running(run, "server.log")
            desk.wait_for("server.log", '"url"')
        with _timed(steps, "auricle-edge join, twice"):
            for name in _OWN:
                desk.leave_running(join.replace("FOLDER", name), f"{name}.log")
            for name in _OWN:
                desk.wait_for(f"{name}.log", "enrolled as")
        with _timed(steps, "auricle-aggregator round start"):
            done = desk.type(start)
            done.check_returncode()
    finally:
        desk.close()
    print(done.stdout, file=sys.stderr)
    return steps


def _lay_out(folder: Path, data: Path) -> None:
    """Deal clips out: each lies in one place."""
    for word in _WORDS:
        clips = iter(sorted(path for path in (data / word).iterdir() if path.suffix in (".wav", ".flac", ".ogg")))
        for name in ("recordings", *(owner for owner, words in _OWN.items() if word in words)):
            (folder / name / word).mkdir(parents=True)
            for _ in range(_CLIPS):
                clip = next(clips)
                shutil.copy(clip, folder / name / word / clip.name)


@contextmanager
def _timed(steps: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    steps[name] = time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
