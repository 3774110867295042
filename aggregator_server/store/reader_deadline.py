"""Ends what the event loop waits for where the database does not: packets are lost on the way, or it stands still."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

_LOOK_S = 0.5


class ReaderDeadline:
    """Cuts one connection once an answer takes too long. A thread of its own looks at the clock now and then."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._end: socket.socket | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="reader deadline", daemon=True).start()

    def watch(self, connection: Connection) -> None:
        """Watch this connection from now on."""
        driver: Any = connection.connection.dbapi_connection
        former, self._end = self._end, socket.socket(fileno=os.dup(driver.fileno()))
        if former is not None:
            former.close()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Cut the connection where this takes too long."""
        self._until = time.monotonic() + self._seconds
        try:
            yield
        finally:
            self._until = None

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_S):
            until, end = self._until, self._end
            if until is not None and end is not None and time.monotonic() > until:
                self._until = None
                with contextlib.suppress(OSError):  # it is lost already
                    end.shutdown(socket.SHUT_RDWR)
        if self._end is not None:
            self._end.close()
