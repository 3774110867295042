"""SIGKILL for processes and all that they started, as a power cut does."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.edge_process import wait_for


def kill_all(*processes: subprocess.Popen) -> None:
    """Kill processes and whatever they started, and wait until none is left."""
    everyone: set[int] = set()
    while new := {pid for process in processes for pid in (process.pid, *descendants(process.pid))} - everyone:
        send_all(new, signal.SIGSTOP)  # who stands still starts nobody else
        everyone |= new
    send_all(everyone, signal.SIGKILL)
    for process in processes:
        process.wait()
    wait_for(lambda: not any(lives(pid) for pid in everyone), what="the end of all processes")


def send_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those processes that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid: int) -> Iterator[int]:
    """Return all processes that a process started, and these, and so on."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def lives(pid: int) -> bool:
    """Whether a process runs, and has not only not been waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
