"""Failed authentications: how many an address may make before it is told to wait, and waits that grow.

Whoever has the right token is never made to wait, so nobody can lock a neighbour behind the same router out. Tokens
hold 256 random bits: the limit does not protect them from guesses, it keeps the audit and the log readable.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from aggregator_server.web.connection import network_of

_ALLOWED = 10  # in a minute
_WINDOW_S = 60.0
_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3_600.0
_FORGOTTEN_S = 2 * _LONGEST_PAUSE_S
_ADDRESSES = 10_000


@dataclass
class _Address:
    began: float
    last: float
    count: int = 0
    pause: float = 0.0
    until: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What becomes of a failed authentication.

    Attributes:
        wait_s: Seconds that the address is told to wait; 0: none.
        begins: Whether the wait begins with this failure.
    """

    wait_s: float = 0.0
    begins: bool = False


class FailedAuthentications:
    """Counts failures by network address, in memory; any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: dict[str, _Address] = {}

    def add(self, address: str, now: float) -> Verdict:
        """Count a failure. The eleventh in a minute makes the address wait a minute, and each next time twice as long.

        Args:
            address: IPv4 or IPv6 address; a network of 64 bits counts as one, for its owner has all of it.
            now: seconds, on a clock that is never set.
        """
        with self._lock:
            found = self._of(network_of(address), now)
            if now < found.until:
                return Verdict(found.until - now)
            if now - found.began >= _WINDOW_S and not found.pause:
                found.began, found.count = now, 0
            found.count, found.last = found.count + 1, now
            if found.count <= _ALLOWED:
                return Verdict()
            found.pause = min(max(_FIRST_PAUSE_S, 2 * found.pause), _LONGEST_PAUSE_S)
            found.until = now + found.pause
            return Verdict(found.pause, begins=True)

    def _of(self, key: str, now: float) -> _Address:
        found = self._addresses.pop(key, None)
        if found is None or now - max(found.last, found.until) > _FORGOTTEN_S:
            found = _Address(now, now)
        self._addresses[key] = found  # the newest last
        if len(self._addresses) > _ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        return found
