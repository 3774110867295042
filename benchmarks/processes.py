"""What processes have used, as Linux counts it, and a real aggregator in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import ROOT, BenchmarkError

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage:
    """Memory and processor time of this process and its descendants; those that have ended stay counted."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._peaks: dict[int, float] = {}
        self._cpu_s: dict[int, float] = {}

    def look(self) -> float:
        """Look at all processes; return the processor seconds that they have used so far."""
        for pid in _family(os.getpid()):
            try:
                self._peaks[pid], self._cpu_s[pid] = peak_mb(pid), cpu_s(pid)
            except (OSError, KeyError):  # it ended in the meantime
                continue
        self.peak_mb = sum(self._peaks.values())
        return sum(self._cpu_s.values())


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def peak_mb(pid: int) -> float:
    """Return the largest resident memory of a process, MB."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024 / 1e6


def cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass(frozen=True)
class Server:
    """A running aggregator."""

    url: str  # its address
    pid: int  # its process, not the one that computes results

    @property
    def cpu_s(self) -> float:
        """Processor seconds that it has used."""
        return cpu_s(self.pid)


@contextmanager
def running(folder: Path, *options: str, create: bool = True, **environment: str) -> Iterator[Server]:
    """Run an aggregator on a new data folder until the end of the block. Raises BenchmarkError: it does not start.

    ``create``: with a new fleet; False: with that of another server, whose database and store the options name.
    """
    command = [sys.executable, "-m", "aggregator_server.cli", "run", "--data", str(folder), "--port", "0"]
    command += ["--create"] if create else []
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *options],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise BenchmarkError((folder / "server.log").read_text())
        yield Server(str(json.loads(line)["url"]), process.pid)
    finally:
        process.terminate()
        process.wait(30)
