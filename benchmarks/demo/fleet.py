"""The federation's processes: one aggregator and its devices, each on its own, and the rounds between them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from benchmarks.demo import DemoError
from fleet_protocol.public_set import PublicSet

# A line of a log, with or without its time.
_ERROR = re.compile(r"^(?:[-\d]+ [:\d]+ )?ERROR ", re.MULTILINE)
_POLL_S = 0.1
_START_S = 60.0
_STOP_S = 15.0


@dataclass
class _Process:
    name: str
    popen: subprocess.Popen[str]
    log: Path


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold SIGTERM and SIGINT back until a process that was started is on record, else nobody would stop it."""
    held: list[int] = []
    before = {number: signal.signal(number, lambda n, _: held.append(n)) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        raise KeyboardInterrupt


@dataclass
class Fleet:
    """A context: what it starts, it stops by process id, whatever happens.

    Attributes:
        folder: of the aggregator's data and of all logs.
        round_s: seconds after which a round that is not done, or not learned, has failed.
        admin_token: opens the aggregator's administration.
        enrol_token: lets devices join.
        url: the aggregator's address.
    """

    folder: Path
    round_s: float
    admin_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    enrol_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    url: str = ""
    _processes: list[_Process] = field(default_factory=list)
    _client: httpx.Client | None = None

    def __enter__(self) -> Fleet:
        # The report draws what devices sent.
        server_options = ["--data", str(self.folder / "aggregator"), "--port", "0", "--keep-uploads"]
        command = ["-m", "aggregator_server.cli", "run", *server_options]
        tokens = {"AURICLE_ADMIN_TOKEN": self.admin_token, "AURICLE_ENROL_TOKEN": self.enrol_token}
        try:
            server = self._start("aggregator", command, tokens, stdout=subprocess.PIPE)
            assert server.popen.stdout is not None
            line = server.popen.stdout.readline()
            if not line:
                raise self._died(server)
            self.url = str(json.loads(line)["url"])
            headers = {"Authorization": f"Bearer {self.admin_token}"}
            self._client = httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def logs(self) -> Path:
        """Where every process' log is."""
        return self.folder / "logs"

    def publish(self, public_set: PublicSet) -> None:
        """Give the fleet its public set."""
        self._ask("PUT", "/v1/public-set", content=public_set.pack())

    def start_device(self, name: str, config: Path) -> None:
        """Start a device's daemon."""
        # A device's one thread is the runtime's; BLAS threads would only take the other devices' cores.
        environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._start(name.replace(" ", "-"), ["-m", "edge_client.cli", "run", "--config", str(config)], environment)

    def wait_for_devices(self, names: set[str]) -> dict[str, str]:
        """Wait until these devices have enrolled; return the name of every device identifier.

        Raises:
            DemoError: a process died, or it takes too long.
        """

        def enrolled() -> dict[str, str] | None:
            found = {info["device_id"]: info["name"] for info in self._ask("GET", "/v1/devices")}
            return found if names <= set(found.values()) else None

        return self._wait(enrolled, _START_S, f"{', '.join(sorted(names))} to enrol")

    def run_round(self, request: dict[str, Any], progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Open a round, wait until every device has learned its result, and return its description.

        Args:
            request: the body of ``POST /v1/rounds``.
            progress: is told the round's description whenever it was asked for.

        Raises:
            DemoError: the round failed, a process died, or it takes too long.
        """
        number = self._ask("POST", "/v1/rounds", json={**request, "deadline_s": self.round_s})["round_id"]

        def learned() -> dict[str, Any] | None:
            detail: dict[str, Any] = self._ask("GET", f"/v1/rounds/{number}")
            if detail["summary"]["state"] == "failed":
                raise DemoError(f"round {number} failed: {detail['summary']['reason']}; logs: {self.logs}")
            progress(detail)
            return detail if all(item["learned"] for item in detail["participants"]) else None

        return self._wait(learned, 2 * self.round_s, f"round {number} to be done and learned")

    def _wait(self, probe: Callable[[], dict[str, Any] | None], longest_s: float, what: str) -> dict[str, Any]:
        end = time.monotonic() + longest_s
        while True:
            self._require_well()
            found = probe()
            if found is not None:
                return found
            if time.monotonic() > end:
                raise DemoError(f"waited {longest_s:.0f} s in vain for {what}; logs: {self.logs}\n{self._tails()}")
            time.sleep(_POLL_S)

    def _ask(self, method: str, path: str, **body: Any) -> Any:  # noqa: ANN401  (decoded JSON)
        return self._send(method, path, **body).json()

    def _send(self, method: str, path: str, **body: Any) -> httpx.Response:  # noqa: ANN401  (passed on to httpx)
        assert self._client is not None
        try:
            response = self._client.request(method, path, **body)
        except httpx.HTTPError as error:
            self._require_well()
            raise DemoError(f"{method} {path}: the aggregator does not answer ({error}); logs: {self.logs}") from error
        if response.status_code >= 400:
            raise DemoError(f"{method} {path}: the aggregator says {response.status_code}: {response.text}")
        return response

    def _start(self, name: str, command: list[str], environment: dict[str, str], stdout: int | None = None) -> _Process:
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        with log.open("w") as file, _undisturbed():
            popen = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=file if stdout is None else stdout,
                stderr=file,
                text=True,
                env={**os.environ, **environment},
            )
            self._processes.append(_Process(name, popen, log))
        return self._processes[-1]

    def _require_well(self) -> None:
        """Fail at the first error: a daemon would go on trying, but here nothing gets better by waiting."""
        for process in self._processes:
            if process.popen.poll() is not None:
                raise self._died(process)
            if _ERROR.search(process.log.read_text(errors="replace")):
                raise DemoError(f"{process.name} reports an error; log: {process.log}\n{_tail(process.log)}")

    def _died(self, process: _Process) -> DemoError:
        status = process.popen.wait()
        return DemoError(f"{process.name} ended with status {status}; log: {process.log}\n{_tail(process.log)}")

    def _tails(self) -> str:
        return "\n".join(f"--- {process.name}\n{_tail(process.log)}" for process in self._processes)

    def _stop(self) -> None:
        if self._client is not None:
            self._client.close()
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.popen.send_signal(signal.SIGTERM)
        for process in reversed(self._processes):
            try:
                process.popen.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()
            if process.popen.stdout is not None:
                process.popen.stdout.close()
        self._processes.clear()


def _tail(log: Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
