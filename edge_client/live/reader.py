"""The watcher's side: reads hop by hop what the daemon hears."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from edge_client.live import LARGEST, SOCKET, Moment
from edge_client.live.feed import short_path

_PAUSE_S = 0.2


class LiveReader:
    """One watcher; the daemon may come and go meanwhile.

    Attributes:
        connected: Whether the daemon has the line open.
    """

    def __init__(self, state: Path) -> None:
        """Prepare to watch the daemon of a state folder."""
        self._path = state / SOCKET
        self._socket: socket.socket | None = None

    @property
    def connected(self) -> bool:
        """Whether the daemon has the line open."""
        return self._socket is not None

    def read(self, timeout_s: float) -> Moment | None:
        """Return the next hop; None when there is none in time, because no sound comes or no daemon runs.

        Raises:
            PermissionError: the daemon runs as another user.
        """
        if self._socket is None and not self._connect():
            time.sleep(min(_PAUSE_S, timeout_s))
            return None
        assert self._socket is not None
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(LARGEST)
        except TimeoutError:
            return None
        except OSError:
            data = b""
        if not data:
            self.close()
            return None
        return Moment.decode(data)

    def close(self) -> None:
        """Watch no longer."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with short_path(self._path) as address:
                connection.connect(address)
        except PermissionError:
            connection.close()
            raise
        except OSError:  # no daemon, or one that does not listen
            connection.close()
            return False
        self._socket = connection
        return True
