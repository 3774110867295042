"""Starts servers by a process that has loaded what they need: to load it takes seconds of a small machine's time.

That process serves one test process. For each server it forks a keeper, which forks the server and tells how that
ended. The server is what ``auricle-aggregator`` is, in a process of its own.
"""

import atexit
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from functools import cache

from tests.support.checkout import ROOT

_ENVIRONMENT = dict(os.environ)  # as it is before a test changes it
_NUMBER = struct.Struct("!i")
_REQUEST_BYTES = 2**18


class ForkedServer:
    """A running server, used as ``subprocess.Popen`` is: it has no more of that than is used."""

    def __init__(self, arguments: list[str], limits: dict[str, float], environment: dict[str, str], log) -> None:
        """Start ``auricle-aggregator`` with ``arguments``; its errors go into the file ``log``."""
        self.returncode: int | None = None
        reading, writing = os.pipe()
        self._keeper, theirs = socket.socketpair()
        request = {"arguments": arguments, "limits": limits, "environment": environment}
        with theirs:
            socket.send_fds(_loaded(), [json.dumps(request).encode()], [theirs.fileno(), writing, log.fileno()])
        os.close(writing)
        self.stdout = os.fdopen(reading)
        self.pid = self._told(None)

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            try:
                self.returncode = self._told(timeout)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("the server", timeout) from None
            self._keeper.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _told(self, timeout: float | None) -> int:
        self._keeper.settimeout(timeout)
        (number,) = _NUMBER.unpack(self._keeper.recv(_NUMBER.size))
        return number


@cache
def _loaded() -> socket.socket:
    """Return the connection to this process' own one that forks."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.support.forked_server", str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(
            command, cwd=ROOT, env=_ENVIRONMENT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def _serve(requests: socket.socket) -> None:
    """Fork a server for each request until the tests are over; only the server's process returns from here."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    while True:
        request, files, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            _keep(*files)
            _become(**json.loads(request))
            return
        for file in files:
            os.close(file)


def _keep(told: int, out: int, log: int) -> None:
    """Fork the server, and tell its number and its end; only the server's process returns from here."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(out)
        os.close(log)
        os.write(told, _NUMBER.pack(pid))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):  # the tests were killed
            os.write(told, _NUMBER.pack(status))
        os._exit(0)
    os.close(told)
    os.dup2(out, 1)
    os.dup2(log, 2)
    os.close(out)
    os.close(log)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - for as long as the process runs
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _become(arguments: list[str], limits: dict[str, float], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))  # plug-ins of a test
    for name, value in limits.items():
        setattr(aggregator_server.limits, name, value)


if __name__ == "__main__":
    import aggregator_server.web.process  # what `run` loads when it is run
    from aggregator_server import cli

    _serve(socket.socket(fileno=int(sys.argv[1])))
    raise SystemExit(cli.main())
