"""The other processes that serve the same fleet: they wake each other, and one of them moves rounds.

A process writes one byte for each thing that happened to the socket that its parent gave it; the parent passes it on
to the others (web/workers.py).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from pathlib import Path

from aggregator_server.rounds.notifier import Notifier
from aggregator_server.store import LEASE

NEW_WORK, DUE, READY = b"w", b"d", b"r"


class Siblings:
    """None: whoever is alone tells nobody, and has the lease."""

    def listen(self, new_work: Notifier, due: Notifier) -> None:
        """Pass on what the others tell."""

    def tell_new_work(self) -> None:
        """Tell the others that devices may have work. Any thread may call this."""

    def tell_due(self) -> None:
        """Tell the others that the open round may be due. Any thread may call this."""

    def has_lease(self) -> bool:
        """Say whether this process is the one that moves rounds. Any thread may call this."""
        return True


class Worker(Siblings):
    """One of several processes. The system takes the lease from a process that dies."""

    def __init__(self, wire: socket.socket, folder: Path) -> None:
        """Make one.

        Args:
            wire: to the parent, blocking: the parent reads at any time.
            folder: data folder, for the lease.
        """
        self._wire = wire
        self._lock = threading.Lock()
        self._file = (folder / LEASE).open("w")
        self._leased = False

    def listen(self, new_work: Notifier, due: Notifier) -> None:
        """Pass on what the others tell; without a parent this process ends, because nobody holds the folder for it."""

        def read() -> None:
            told = self._wire.recv(4096)
            if not told:
                os._exit(1)
            if NEW_WORK in told:
                new_work.notify_here()
            if DUE in told:
                due.notify_here()

        asyncio.get_running_loop().add_reader(self._wire, read)

    def tell_ready(self) -> None:
        """Tell the parent that this process serves."""
        self._tell(READY)

    def tell_new_work(self) -> None:
        """Tell the others that devices may have work."""
        self._tell(NEW_WORK)

    def tell_due(self) -> None:
        """Tell the others that the open round may be due."""
        self._tell(DUE)

    def has_lease(self) -> bool:
        """Take the lease where nobody has it."""
        if not self._leased:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._leased = True
        return True

    def _tell(self, what: bytes) -> None:
        with self._lock:
            self._wire.sendall(what)
