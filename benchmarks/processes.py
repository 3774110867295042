"""What this process and all that descend from it have used, as Linux counts it."""

from __future__ import annotations

import os
from pathlib import Path

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


def children(pid: int) -> tuple[int, ...]:
    """Return the processes that a process started and that still run."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return tuple(int(child) for task in tasks for child in task.read_text().split())


def peak_mb(pid: int) -> float:
    """Return the largest resident memory of a process, MB."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024 / 1e6


def cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
