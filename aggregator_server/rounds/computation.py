"""The computation of a round's result, in a process of its own beside a running server.

Aggregation and class discovery hold the interpreter for as long as they take. Beside them a server would answer nobody.
A process that was killed or takes too long is replaced, and the step is tried again: the same inputs give the same
bytes. An input that kills it every time ends the round, not the server.
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from aggregator_server.limits import COMPUTATION_DEATHS, COMPUTATION_S
from aggregator_server.logs import configure
from aggregator_server.rounds.result import StoredResult, compute_result
from aggregator_server.rounds.snapshot import RoundSnapshot
from aggregator_server.store.blobs import BlobStore
from fleet_protocol.ground.own_python import safe_path

_NICENESS = 5  # requests come first

_log = logging.getLogger(__name__)


class ComputationLostError(OSError):
    """The process that computed a result is gone; the step can be tried again."""


@dataclass(frozen=True)
class _Retry:
    """What went wrong with the machine and not with the round."""

    reason: str


def compute_here(blobs: BlobStore, snapshot: RoundSnapshot) -> StoredResult | str:
    """Return a round's result, or why it has none, computed in this process.

    Raises OSError, MemoryError: a full disk or memory says nothing about the round.
    """
    try:
        return compute_result(blobs, snapshot)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # the same inputs would fail again for ever, so the round ends here
        _log.exception("round %d cannot be aggregated", snapshot.round_id)
        return f"{type(error).__name__}: {error}"


class Computation:
    """Computes as :func:`compute_here`, in a process of its own, one round at a time; threads may share it."""

    def __init__(self, blobs: BlobStore, limit_s: float = COMPUTATION_S) -> None:
        """Make one whose process does not run yet. ``limit_s``: a computation that takes longer is ended."""
        self._blobs = blobs
        self._limit_s = limit_s
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._deaths: tuple[int, int] = (0, 0)  # of (round, processes that died of it)
        self._running: tuple[BaseProcess, Connection] | None = None

    def start(self) -> None:
        """Start the process before a round needs it."""
        with self._turn:
            self._present()

    @property
    def pid(self) -> int | None:
        """Of the present process; None where none was started."""
        return None if self._running is None else self._running[0].pid

    def __call__(self, blobs: BlobStore, snapshot: RoundSnapshot) -> StoredResult | str:
        """Return a round's result, or why it has none.

        Raises ComputationLostError: the process was killed, or took too long. OSError: a full disk or memory.
        """
        assert blobs.shown() == self._blobs.shown()
        with self._turn:
            try:
                answer = self._asked(snapshot)
            except (EOFError, OSError) as error:
                return self._lost(snapshot.round_id, str(error))
        if isinstance(answer, _Retry):
            raise OSError(answer.reason)
        return answer

    def close(self) -> None:
        """End the process, whatever it is doing; whoever waits for it gets a ComputationLostError."""
        self._closed.set()
        running = self._running
        if running is not None:
            running[0].kill()
            running[0].join()

    def _present(self) -> tuple[BaseProcess, Connection]:
        if self._running is None:
            context = multiprocessing.get_context("spawn")  # a fork would copy locks that another thread holds
            mine, theirs = context.Pipe()
            arguments = (theirs, self._blobs)
            process = context.Process(target=_serve, args=arguments, daemon=True, name="computation")
            with safe_path():
                process.start()
            theirs.close()
            self._running = process, mine
        return self._running

    def _asked(self, snapshot: RoundSnapshot) -> StoredResult | str | _Retry:
        process, connection = self._present()
        connection.send(snapshot)
        if not wait([connection, process.sentinel], self._limit_s):
            raise OSError(f"it took longer than {self._limit_s:g} s")
        answer: StoredResult | str | _Retry = connection.recv()
        return answer

    def _lost(self, round_id: int, why: str) -> str:
        """Start another process; return why the round ends, if too many died of it."""
        process, connection = self._present()
        process.kill()
        process.join()
        connection.close()
        self._running = None
        reason = f"the process that computed round {round_id} ended ({why or f'status {process.exitcode}'})"
        if self._closed.is_set():
            raise ComputationLostError(reason)
        self._deaths = (round_id, self._deaths[1] + 1 if self._deaths[0] == round_id else 1)
        self._present()
        if self._deaths[1] < COMPUTATION_DEATHS:
            raise ComputationLostError(reason)
        return f"{reason}, {COMPUTATION_DEATHS} times; is the memory of this machine enough?"


def _serve(connection: Connection, blobs: BlobStore) -> None:
    """Answer snapshots with results until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    with contextlib.suppress(PermissionError):  # a sandbox may forbid it
        os.nice(_NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    configure()
    with contextlib.suppress(EOFError):
        while True:
            connection.send(_answer(blobs, connection.recv()))


def _answer(blobs: BlobStore, snapshot: RoundSnapshot) -> StoredResult | str | _Retry:
    try:
        found = compute_here(blobs, snapshot)
    except (OSError, MemoryError) as error:
        return _Retry(f"{type(error).__name__}: {error}")
    if isinstance(found, str):
        return found
    # The arrays are in the store; only what becomes rows goes to another process.
    return replace(found, result=replace(found.result, consensus=None, weights=None, state={}, prototypes=None))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
