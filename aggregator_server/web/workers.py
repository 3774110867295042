"""Several processes that serve one fleet at one address, and the parent that starts, connects and replaces them.

The parent holds the data folder and the listening socket. It answers no request. It passes on what workers tell each
other, starts another worker in place of one that died, and ends all when it is asked to.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

from aggregator_server.web.siblings import DUE, NEW_WORK, READY

# Starts the process of a worker that gets this wire.
Start = Callable[[socket.socket], BaseProcess]
_RESTART_PAUSE_S = 1.0
_END_S = 20.0  # longer than a worker waits for its requests

_log = logging.getLogger(__name__)


@dataclass
class _Member:
    process: BaseProcess
    wire: socket.socket
    pending: set[int] = field(default_factory=set)  # kinds of messages that its wire has no room for

    def pass_on(self) -> None:
        """Send what is pending, as far as there is room; the same message twice says no more than once."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.pending:
                self.wire.send(bytes([next(iter(self.pending))]))
                self.pending.pop()


class Workers:
    """The processes, and the loop that looks after them."""

    def __init__(self, start: Start, count: int, ready: Callable[[], None]) -> None:
        """Make none yet.

        Args:
            start: starts one.
            count: of processes.
            ready: called once, when all serve.
        """
        self._start = start
        self._count = count
        self._ready = ready
        self._serving = 0
        self._selector = selectors.DefaultSelector()
        self._members: list[_Member] = []
        self._stop, self._stopped = socket.socketpair()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.send(b"x"))
        self._selector.register(self._stopped, selectors.EVENT_READ)
        try:
            for _ in range(self._count):
                self._add()
            while not self._turn():
                pass
        finally:
            self._end()

    def _add(self) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            process = self._start(theirs)
        mine.setblocking(False)
        member = _Member(process, mine)
        self._members.append(member)
        self._selector.register(mine, selectors.EVENT_READ, member)

    def _turn(self) -> bool:
        """Wait for what workers tell, and pass it on; say whether to stop."""
        waits = any(member.pending for member in self._members)
        for key, _ in self._selector.select(0.01 if waits else None):
            if key.fileobj is self._stopped:
                return True
            self._hear(key.data)
        for member in self._members:
            member.pass_on()
        return False

    def _hear(self, member: _Member) -> None:
        try:
            told = member.wire.recv(4096)
        except ConnectionResetError:
            told = b""
        if not told:
            self._replace(member)
            return
        if READY in told:
            self._serving += 1
            if self._serving == self._count:
                self._ready()
        for other in self._members:
            if other is not member:
                other.pending |= set(told) - set(READY)

    def _replace(self, member: _Member) -> None:
        """Start another worker in place of one whose wire ended, which it does only when it dies."""
        self._selector.unregister(member.wire)
        member.wire.close()
        self._members.remove(member)
        for other in self._members:  # it may have died between what it did and telling so
            other.pending |= set(NEW_WORK + DUE)
        _kill(member.process)
        _log.error("a worker ended with status %s; another one starts", member.process.exitcode)
        time.sleep(_RESTART_PAUSE_S)  # one that dies when it starts must not take the processor
        self._add()

    def _end(self) -> None:
        for member in self._members:
            member.process.terminate()
        end(tuple(member.process for member in self._members))
        self._selector.close()


def end(processes: Sequence[BaseProcess]) -> None:
    """Wait for processes that were asked to end, and kill those that do not."""
    deadline = time.monotonic() + _END_S
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        _kill(process)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


def start_process(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """Start a process afresh: a fork would copy locks and connections to the database."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process
