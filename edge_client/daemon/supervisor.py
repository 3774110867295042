"""The daemon's loops, each in a thread of its own: one that fails is started again alone, after growing pauses."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edge_client.logs import RateLimitedLog
from fleet_protocol.errors import AuricleError

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
# A failure that lasts, as of a microphone that is not there, is logged again after so long, s.
_LOGGED_AGAIN_S = 600.0
_trouble = RateLimitedLog(log, _LOGGED_AGAIN_S)
# A loop that ran for this long before it failed begins with short pauses again.
_SETTLED_S = 300.0


_Beat = Callable[[], None]
"""Called by a loop whenever it makes progress."""


@dataclass(kw_only=True)
class Loop:
    """One of the daemon's loops; :class:`Supervisor` restarts its body after whatever that raises."""

    name: str
    stuck_after_s: float
    body: Callable[[_Beat], None]
    state: str = "running"
    restarts: int = 0
    error: str = ""
    progressed: float = field(default_factory=time.monotonic)

    def beat(self) -> None:
        """Note that the loop made progress."""
        self.progressed = time.monotonic()

    def stuck(self) -> bool:
        """Return whether the loop stands still."""
        return time.monotonic() - self.progressed > self.stuck_after_s

    def to_json(self) -> dict[str, Any]:
        """Return what the status says of it."""
        return {"state": self.state, "restarts": self.restarts, "error": self.error, "stuck": self.stuck()}


class Supervisor:
    """Starts loops and keeps them running until ``stop`` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self.loops: dict[str, Loop] = {}
        self._stop = stop
        self._threads: list[threading.Thread] = []

    def add(self, name: str, stuck_after_s: float, body: Callable[[_Beat], None]) -> Loop:
        """Prepare a loop; it is stuck when it did not beat for so long."""
        loop = self.loops[name] = Loop(name=name, stuck_after_s=stuck_after_s, body=body)
        return loop

    def start(self) -> None:
        """Start all loops."""
        for loop in self.loops.values():
            thread = threading.Thread(target=self._keep, args=(loop,), name=loop.name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def join(self, seconds: float) -> list[str]:
        """Wait for the loops to end, together at most so long; return the names of those that did not."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def _keep(self, loop: Loop) -> None:
        pause, logged = _FIRST_PAUSE_S, ("", 0.0)
        while not self._stop.is_set():
            began = time.monotonic()
            loop.state = "running"
            loop.beat()
            try:
                loop.body(loop.beat)
            except Exception as error:
                loop.error = str(error) or type(error).__name__
                if loop.error != logged[0] or time.monotonic() - logged[1] > _LOGGED_AGAIN_S:
                    logged = (loop.error, time.monotonic())
                    # What the product names itself needs no trace; anything else is a defect, and the trace finds it.
                    trace = not isinstance(error, AuricleError | OSError)
                    log.error("%s: %s; trying again until it works", loop.name, loop.error, exc_info=trace)
                if time.monotonic() - began > _SETTLED_S:
                    pause = _FIRST_PAUSE_S
                loop.state = "waiting"
                self._wait(loop, pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                loop.restarts += 1
        loop.state = "ended"

    def _wait(self, loop: Loop, seconds: float) -> None:
        """Pause; waiting for the next attempt is progress."""
        deadline = time.monotonic() + seconds
        while not self._stop.wait(min(1.0, max(0.0, deadline - time.monotonic()))) and time.monotonic() < deadline:
            loop.beat()


def notify(*words: str) -> bool:
    """Tell systemd words like ``WATCHDOG=1``; return whether it listens.

    Nobody may: a variable that was inherited, as within a container or a shell of a service, can name a socket that is
    gone. That is logged, and no reason to end.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            connection.connect(address)
            connection.sendall("\n".join(words).encode())
    except OSError as error:
        said = "cannot tell systemd how the daemon is, by NOTIFY_SOCKET=%s: %s"
        _trouble.warning(said, os.environ["NOTIFY_SOCKET"], error.strerror or error)
        return False
    return True
