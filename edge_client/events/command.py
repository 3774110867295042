"""Runs the owner's program for every event: the event as JSON on its standard input."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from collections.abc import Collection, Sequence

from edge_client.events import Document, SinkDevice, SinkKind
from edge_client.events.delivery import Delivery, DocumentSink
from edge_client.logs import RateLimitedLog

_WAITING = 32
_GRACE_S = 2.0
_STDERR = 2


class CommandHook(DocumentSink):
    """Runs one program at a time; what it prints goes to standard error."""

    def __init__(self, command: Sequence[str], timeout_s: float, secrets: Collection[str] = ()) -> None:
        """Prepare.

        Args:
            command: program and arguments; no shell interprets them.
            timeout_s: seconds after which the program, and all that it started, is killed.
            secrets: Environment variables that the program does not get.
        """
        self._command = list(command)
        self._timeout_s = timeout_s
        self._secrets = secrets
        self._running: subprocess.Popen[bytes] | None = None
        self._trouble = RateLimitedLog(logging.getLogger(__name__))
        super().__init__(Delivery(f"the command {command[0]}", self._run, _WAITING))

    def close(self) -> None:
        """Let the running program end, but not for long; events that still wait are dropped."""
        self._delivery.discard()
        finished, running = self._delivery.close(_GRACE_S), self._running
        if not finished and running is not None:
            _kill(running)
            self._delivery.close(_GRACE_S)

    def _run(self, event: Document) -> None:
        name = self._command[0]
        document = json.dumps(event, ensure_ascii=False).encode() + b"\n"
        environment = {key: value for key, value in os.environ.items() if key not in self._secrets}
        try:
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=_STDERR, start_new_session=True, env=environment
            )
        except OSError as error:
            self._trouble.warning("[events] command: cannot run %s: %s", name, error)
            return
        with process:
            self._running = process
            try:
                process.communicate(document, self._timeout_s)
                if process.returncode:
                    self._trouble.warning("[events] command: %s ended with status %d", name, process.returncode)
            except subprocess.TimeoutExpired:
                _kill(process)
                self._trouble.warning("[events] command: %s was killed after %g s", name, self._timeout_s)
            self._running = None


def _open(device: SinkDevice) -> CommandHook | None:
    from edge_client.events.publisher import secret_variables  # which imports this module

    events = device.config.events
    return CommandHook(events.command, events.command_timeout_s, secret_variables()) if events.command else None


SINK = SinkKind(name="command", open=_open)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
