"""A real aggregator in a process of its own, for benchmarks that ask it over sockets."""

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
from benchmarks.processes import children, cpu_s


@dataclass(frozen=True)
class Server:
    """A running aggregator."""

    url: str  # its address
    pid: int  # its process, not the one that computes results

    @property
    def cpu_s(self) -> float:
        """Processor seconds that it has used."""
        return cpu_s(self.pid)

    @property
    def all_cpu_s(self) -> float:
        """The same with those of the process that computes results."""
        return sum(map(cpu_s, (self.pid, *children(self.pid))))


@contextmanager
def running(folder: Path, *options: str, **environment: str) -> Iterator[Server]:
    """Run an aggregator on a new data folder until the end of the block. Raises BenchmarkError: it does not start."""
    command = [sys.executable, "-m", "aggregator_server.cli", "run", "--create", "--data", str(folder), "--port", "0"]
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
