"""The programs of a fleet: an aggregator and its devices, each a process of its own, and the rounds between them."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from demo import ONE_THREAD, DemoError
from fleet_protocol.messages.public_set import PublicSet

# A line of a log, with or without its time.
_ERROR = re.compile(r"^(?:[-\d]+ [:\d]+ )?ERROR ", re.MULTILINE)
_POLL_S = 0.3
_ENROL_S = 300.0
_STOP_S = 15.0

_Found = TypeVar("_Found")


class Fleet:
    """A context: what it starts, it stops by process id, whatever happens, and also as soon as ``stop`` is set."""

    def __init__(self, folder: Path, round_s: float, stop: threading.Event) -> None:
        """Start nothing yet; a round that is not done, or not learned, after ``round_s`` seconds has failed."""
        self._told_to_stop = stop
        self.url, self.enrol_token = "", secrets.token_urlsafe(24)
        self._data, self._logs, self._round_s = folder / "aggregator", folder / "logs", round_s
        self._processes: list[tuple[str, subprocess.Popen[str], Path]] = []
        self._client: httpx.Client | None = None

    def __enter__(self) -> Self:
        admin = secrets.token_urlsafe(24)
        tokens = {"AURICLE_ADMIN_TOKEN": admin, "AURICLE_ENROL_TOKEN": self.enrol_token}
        # The users are one household: each listens for what one of the others teaches.
        needed = ("--devices-needed", "1")
        command = ("aggregator_server.cli", "run", "--create", "--data", str(self._data), "--port", "0", *needed)
        try:
            server = self._start("aggregator", command, tokens, stdout=subprocess.PIPE)
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line:
                server.wait()
                self._require_well()
            self.url = str(json.loads(line)["url"])
            headers = {"Authorization": f"Bearer {admin}"}
            self._client = httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def publish(self, public_set: PublicSet) -> None:
        """Give the fleet its public set."""
        self._ask("PUT", "/v1/public-set", content=public_set.pack())

    def start_device(self, name: str, config: Path) -> None:
        """Start a device's daemon."""
        self._start(name.replace(" ", "-"), ("edge_client.cli", "run", "--config", str(config)), ONE_THREAD)

    def wait_for_devices(self, names: set[str]) -> None:
        """Wait until these devices have enrolled. Raises DemoError: a process died, or it takes too long."""
        self._wait(
            lambda: names <= {info["name"] for info in self._ask("GET", "/v1/devices")} or None,
            _ENROL_S,
            f"{', '.join(sorted(names))} to enrol",
        )

    def run_round(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open a round, wait until every device has learned its result, and return its description.

        ``request`` is the body of ``POST /v1/rounds``.

        Raises DemoError: the round failed, a process died, or it takes too long.
        """
        number = self._ask("POST", "/v1/rounds", json={**request, "deadline_s": self._round_s})["round_id"]

        def learned() -> dict[str, Any] | None:
            detail: dict[str, Any] = self._ask("GET", f"/v1/rounds/{number}")
            if detail["summary"]["state"] == "failed":
                raise DemoError(f"round {number} failed: {detail['summary']['reason']}; logs: {self._logs}")
            return detail if all(item["learned"] for item in detail["participants"]) else None

        return self._wait(learned, 2 * self._round_s, f"round {number} to be done and learned")

    def _wait(self, probe: Callable[[], _Found | None], longest_s: float, what: str) -> _Found:
        end = time.monotonic() + longest_s
        while True:
            self._require_well()
            if (found := probe()) is not None:
                return found
            if time.monotonic() > end:
                tails = "\n".join(f"--- {name}\n{_tail(log)}" for name, _, log in self._processes)
                raise DemoError(f"waited {longest_s:.0f} s in vain for {what}; logs: {self._logs}\n{tails}")
            time.sleep(_POLL_S)

    def _ask(self, method: str, path: str, **body: Any) -> Any:  # noqa: ANN401  (decoded JSON; passed on to httpx)
        assert self._client is not None
        try:
            response = self._client.request(method, path, **body)
        except httpx.HTTPError as error:
            self._require_well()
            raise DemoError(f"{method} {path}: the aggregator does not answer ({error}); logs: {self._logs}") from error
        if response.status_code >= 400:
            raise DemoError(f"{method} {path}: the aggregator says {response.status_code}: {response.text}")
        return response.json()

    def _start(
        self, name: str, command: tuple[str, ...], environment: dict[str, str], stdout: int | None = None
    ) -> subprocess.Popen[str]:
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=file if stdout is None else stdout,
                stderr=file,
                text=True,
                env={**os.environ, **environment},
            )
            self._processes.append((name, process, log))
        return process

    def _require_well(self) -> None:
        """Fail at the first error: a daemon would go on trying, but here nothing gets better by waiting."""
        if self._told_to_stop.is_set():
            raise DemoError("told to stop")
        for name, process, log in self._processes:
            if process.poll() is not None:
                raise DemoError(f"{name} ended with status {process.returncode}; log: {log}\n{_tail(log)}")
            if _ERROR.search(log.read_text(errors="replace")):
                raise DemoError(f"{name} reports an error; log: {log}\n{_tail(log)}")

    def _stop(self) -> None:
        if self._client is not None:
            self._client.close()
        for _, process, _ in reversed(self._processes):
            process.terminate()
        for _, process, _ in reversed(self._processes):
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-8:])
