"""The daemon's side: a socket in its runtime folder, to which every hop is sent for as long as somebody watches.

Nobody makes the daemon wait: it polls for new watchers once a hop without waiting, computes nothing while there are
none, and leaves out a hop for a watcher that does not read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from edge_client.audio.level import FLOOR_DB
from edge_client.events import Heard
from edge_client.live import SOCKET, Moment
from edge_client.live.spectrum import Spectrum
from edge_client.storage.runtime_files import runtime_path
from fleet_protocol.arrays import Floats

log = logging.getLogger(__name__)

# Watchers at once; more are turned away.
_MAX_WATCHERS = 8


class LiveFeed:
    """Sends what is heard to those who watch; used by one thread."""

    def __init__(self, state: Path, sample_rate_hz: int) -> None:
        """Open the socket, which the daemon's user alone can connect to.

        Args:
            state: the device's state folder.
            sample_rate_hz: of the stream.

        Raises:
            OSError: the folder takes no socket.
        """
        self._spectrum = Spectrum(sample_rate_hz)
        self._watchers: list[socket.socket] = []
        self._path = runtime_path(state, SOCKET)
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        # Before it has a name: the socket's file is made with this mode (unix(7)).
        os.fchmod(self._listener.fileno(), 0o600)
        with short_path(self._path) as address:
            self._listener.bind(address)
        self._listener.listen(_MAX_WATCHERS)

    def watched(self) -> bool:
        """Let in who wants to watch; return whether anybody does."""
        try:
            watcher, _ = self._listener.accept()
        except OSError:  # nobody waits, or the one who did is gone
            return bool(self._watchers)
        if len(self._watchers) >= _MAX_WATCHERS:
            watcher.close()
            return True
        watcher.setblocking(False)
        if not self._watchers:
            self._spectrum.reset()
        self._watchers.append(watcher)
        return True

    def send(self, samples: Floats, standing: Mapping[str, tuple[float, float]], heard: Sequence[Heard]) -> None:
        """Send a hop to all who watch.

        Args:
            samples: float32 [samples] of the hop.
            standing: averaged score and threshold of every label.
            heard: what the detector heard in it.
        """
        columns, levels = self._spectrum(samples)
        data = Moment(
            time=round(time.time(), 3),
            level_db=max(levels, default=FLOOR_DB),
            levels_db=levels,
            columns=columns,
            column_s=self._spectrum.column_s,
            scores={label: round(score, 4) for label, (score, _) in standing.items()},
            thresholds={label: round(threshold, 4) for label, (_, threshold) in standing.items()},
            heard=tuple(one.event.to_json() for one in heard),
        ).encode()
        self._watchers = [watcher for watcher in self._watchers if _sent(watcher, data)]

    def close(self) -> None:
        """Let nobody watch any more."""
        for watcher in self._watchers:
            watcher.close()
        self._watchers.clear()
        self._listener.close()
        self._path.unlink(missing_ok=True)


def _sent(watcher: socket.socket, data: bytes) -> bool:
    """Send without waiting; return whether the watcher is still there. One that does not read misses the hop."""
    try:
        watcher.send(data)
    except BlockingIOError:
        pass
    except OSError:  # gone
        watcher.close()
        return False
    return True


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a short name of a socket's path: an address holds 107 bytes, and a state folder may lie deep."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
