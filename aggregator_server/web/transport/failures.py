"""Failed authentications: how many an address may make before it is told to wait, and how many have an audit entry.

Whoever has the right token is never made to wait, so nobody can lock a neighbour behind the same router out. Tokens
hold 256 random bits: the limit does not protect them from guesses, it keeps the audit and the log readable.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from aggregator_server import limits
from fleet_protocol.addresses import network_of

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


@dataclass(frozen=True)
class More:
    """Failures without an entry of their own: how many, and from how many addresses."""

    failures: int = 0
    addresses: int = 0


class NotedFailures:
    """Says which failures get an entry of the audit, and counts the others; any thread may call it.

    Entries stay for ever, and anybody can fail. The bounds are those of aggregator_server/limits.py.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = 0.0
        self._noted: Counter[str] = Counter()  # by address, as few as there are entries
        self._more = 0
        self._more_from: set[str] = set()

    def admit(self, address: str, now: float) -> bool:
        """Say whether a failure gets an entry; count it where it does not.

        Args:
            address: IPv4 or IPv6 address; a network of 64 bits counts as one.
            now: seconds, on a clock that is never set.
        """
        network = network_of(address)
        with self._lock:
            if not self._noted or self._is_over(now):
                self._noted.clear()
                self._began = now
            of_address = self._noted[network]
            if self._noted.total() < limits.REFUSALS_NOTED and of_address < limits.REFUSALS_NOTED_OF_ADDRESS:
                self._noted[network] += 1
                return True
            self._more += 1
            if len(self._more_from) < _ADDRESSES:
                self._more_from.add(network)
            return False

    def take_more(self, now: float, *, ends: bool) -> More:
        """Return what was counted, once, when its time is over; at once where the server ``ends``."""
        with self._lock:
            if not ends and not self._is_over(now):
                return More()
            more = More(self._more, len(self._more_from))
            self._more, self._more_from = 0, set()
            return more

    def _is_over(self, now: float) -> bool:
        return now - self._began >= limits.REFUSALS_NOTED_S
