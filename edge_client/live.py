"""What the device hears at this moment: the daemon's socket, to which every hop is sent, and the watcher's side of it.

Nobody makes the daemon wait: it polls for new watchers once a hop without waiting, computes nothing while there are
none, and leaves out a hop for a watcher that does not read.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from edge_client.audio.level import FLOOR_DB, frame_levels_dbfs
from edge_client.events import Heard
from edge_client.features.log_mel import mel_filters
from edge_client.storage.locks import runtime_path
from fleet_protocol.bundle.feature_settings import LogMelSettings
from fleet_protocol.numbers.arrays import Doubles, Floats

log = logging.getLogger(__name__)

# Socket in the state folder; under systemd a link to one in the runtime folder.
_SOCKET = "live.sock"
# Datagrams are whole or not there at all, so one of them never needs more than this.
LARGEST = 1 << 17
BANDS = 40
_COLUMN_S = 0.02
_WINDOW_S = 0.032
_LOW_HZ, _HIGH_HZ = 60.0, 8_000.0
# Levels that a byte stands for, dB of a full-scale sine.
LOWEST_DB, HIGHEST_DB = -110.0, -20.0
# Watchers at once; more are turned away.
_MAX_WATCHERS = 8
_PAUSE_S = 0.2


@dataclass(frozen=True)
class Moment:
    """One hop of the sound, as the detector saw it.

    Attributes:
        time: End of the hop, in seconds since 1970, UTC.
        level_db: Loudest column of the spectrum, dB full scale.
        levels_db: Level of each column.
        columns: Spectrum, :data:`BANDS` bytes a column, oldest column and lowest band first.
        column_s: Time from one column to the next, s.
        scores: Averaged score of every label, 0..1.
        thresholds: Averaged score from which each label counts as heard, 0..1.
        heard: Events in this hop, as ``Event.to_json`` has them.
        guesses: What the sounds of the last ten seconds may be, the likeliest first, and how likely, 0..1.
    """

    time: float
    level_db: float
    levels_db: tuple[float, ...] = ()
    columns: bytes = b""
    column_s: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    heard: tuple[dict[str, Any], ...] = ()
    guesses: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the moment JSON-ready, the spectrum in base64."""
        return vars(self) | {"columns": base64.b64encode(self.columns).decode()}

    def encode(self) -> bytes:
        """Return the moment as a datagram."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Moment:
        """Read a datagram of :meth:`encode`. Raises ValueError if it is none."""
        try:
            document = json.loads(data)
            document |= {name: tuple(document[name]) for name in ("levels_db", "heard")}
            return cls(**document | {"columns": base64.b64decode(document["columns"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a moment: {error}") from error


class Spectrum:
    """Columns of a stream; what is too short for a column waits for the next samples."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._hop, size = round(_COLUMN_S * sample_rate_hz), round(_WINDOW_S * sample_rate_hz)
        self.column_s = self._hop / sample_rate_hz
        highest = min(_HIGH_HZ, sample_rate_hz / 2)
        settings = LogMelSettings(
            "live", sample_rate_hz, _WINDOW_S, _WINDOW_S, _COLUMN_S, 1, BANDS, size, _LOW_HZ, highest
        )
        filters = mel_filters(settings)
        self._window: Doubles = np.hanning(size)
        self._filters = filters / filters.sum(axis=0) * 4 / self._window.sum() ** 2
        self._waiting = np.zeros(0, np.float32)

    def reset(self) -> None:
        """Forget what waits: the next samples do not follow it."""
        self._waiting = self._waiting[:0]

    def __call__(self, samples: Floats) -> tuple[bytes, tuple[float, ...]]:
        """Return the columns that float32 [samples] complete, ``BANDS`` bytes each, and the level of each in dB."""
        waiting = np.concatenate([self._waiting, samples])
        size = len(self._window)
        count = max(0, (len(waiting) - size) // self._hop + 1)
        self._waiting = waiting[count * self._hop :]
        if not count:
            return b"", ()
        windows = np.lib.stride_tricks.sliding_window_view(waiting, size)[:: self._hop][:count]
        power = np.square(np.abs(np.fft.rfft(windows * self._window))) @ self._filters
        decibels = 10 * np.log10(power + 1e-12)
        scaled = 255 * (decibels - LOWEST_DB) / (HIGHEST_DB - LOWEST_DB)
        levels = frame_levels_dbfs(waiting[: count * self._hop], self._hop)
        return scaled.clip(0, 255).astype(np.uint8).tobytes(), tuple(round(float(level), 1) for level in levels)


class LiveFeed:
    """Sends what is heard to those who watch; used by one thread."""

    def __init__(self, state: Path, sample_rate_hz: int) -> None:
        """Open the socket, to which the daemon's user alone can connect. Raises OSError if the folder takes none."""
        self._spectrum = Spectrum(sample_rate_hz)
        self._watchers: list[socket.socket] = []
        self._path = runtime_path(state, _SOCKET)
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        # Before it has a name: the socket's file is made with this mode (unix(7)).
        os.fchmod(self._listener.fileno(), 0o600)
        with _short_path(self._path) as address:
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

    def send(
        self,
        samples: Floats,
        standing: Mapping[str, tuple[float, float]],
        heard: Sequence[Heard],
        guesses: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Send a hop, float32 [samples], to all who watch; ``standing``: averaged score and threshold by label."""
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
            guesses={word: round(share, 2) for word, share in guesses.items()},
        ).encode()
        self._watchers = [watcher for watcher in self._watchers if _sent(watcher, data)]

    def close(self) -> None:
        """Let nobody watch any more."""
        for watcher in self._watchers:
            watcher.close()
        self._watchers.clear()
        self._listener.close()
        with contextlib.suppress(OSError):  # on a disk that has become read-only it stays; the next one takes its place
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
def _short_path(path: Path) -> Iterator[str]:
    """Yield a short name of a socket's path: an address holds 107 bytes, and a state folder may lie deep."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class LiveReader:
    """One watcher; the daemon may come and go meanwhile."""

    def __init__(self, state: Path) -> None:
        self._path = state / _SOCKET
        self._socket: socket.socket | None = None

    @property
    def connected(self) -> bool:
        """Whether the daemon has the line open."""
        return self._socket is not None

    def read(self, timeout_s: float) -> Moment | None:
        """Return the next hop; None where none comes in time. Raises PermissionError if it is another user's daemon."""
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
            with _short_path(self._path) as address:
                connection.connect(address)
        except PermissionError:
            connection.close()
            raise
        except OSError:  # no daemon, or one that does not listen
            connection.close()
            return False
        self._socket = connection
        return True
