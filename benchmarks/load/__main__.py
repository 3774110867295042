"""A fleet that does everything at once: enrols, wakes when a round opens, uploads 206 kB each, and the round closes.

A real aggregator runs in a process of its own. All devices share a second one, and a third asks for the server's health
(20 times a second) and for what an administrator asks, from the first enrolment to the end of the round. So on two
cores they compete with the server for the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT, BenchmarkError, Command
from benchmarks.load.fleet import Fleet, public_set, shared_model
from benchmarks.load.probe import Connection
from benchmarks.processes import peak_mb
from benchmarks.server import Server, running

_TOKENS = {"AURICLE_ADMIN_TOKEN": "administrator-of-the-load", "AURICLE_ENROL_TOKEN": "enrolment-of-the-load"}
_QUIET_CPU_S, _QUIET_FOR_S = 0.2, 1.0  # so little of the processor, for so long: the server only waits


class Phases:
    """Seconds, and processor milliseconds of the server for each device, by phase."""

    def __init__(self, server: Server, devices: int) -> None:
        self._server, self._devices = server, devices
        self.idle = 0.0  # processor seconds of the server in a second in which only the probe asks
        self.seconds: dict[str, float] = {}
        self.cpu_ms: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what happens within."""
        begun, used = time.perf_counter(), self._server.cpu_s
        yield
        seconds = time.perf_counter() - begun
        self.seconds[name] = round(seconds, 3)
        used = self._server.cpu_s - used - seconds * self.idle
        self.cpu_ms[name] = round(used * 1000 / self._devices, 2)


async def measure(server: Server, devices: int) -> dict[str, float]:
    """Let a fleet go through one round. Raises BenchmarkError: the round failed."""
    admin = Connection(server.url, _TOKENS["AURICLE_ADMIN_TOKEN"])
    for path, body in (("/v1/public-set", public_set().pack()), ("/v1/model", shared_model())):
        await _asked(admin, "PUT", path, body)
    fleet, phases = Fleet(server.url, devices, _TOKENS["AURICLE_ENROL_TOKEN"]), Phases(server, devices)
    opened: list[float] = []
    with probing(server) as probed:
        phases.idle = await _quiet(server)
        with phases.phase("enrol"):
            await fleet.enrol()
        waiting = asyncio.create_task(fleet.wait_for_work())
        await _quiet(server)
        with phases.phase("wake"):
            begun = time.perf_counter()
            request = {"strategy": "fedavg", "quorum": 1.0, "deadline_s": 600}
            await _asked(admin, "POST", "/v1/rounds", json.dumps(request).encode())
            opened.append(time.perf_counter() - begun)
            await waiting
        with phases.phase("upload"):
            await fleet.upload()
        with phases.phase("close"):
            await _closed(admin)
    fleet.close()
    admin.close()
    waits = {"health_p99_ms": _p99_ms(probed["health"]), "admin_p99_ms": _p99_ms(probed["admin"] + opened)}
    cpu_ms = {f"{name}_cpu_ms": phases.cpu_ms[name] for name in ("enrol", "wake", "upload")}
    seconds = {f"{name}_s": value for name, value in phases.seconds.items()}
    figures = {"devices": devices, "errors": fleet.errors + probed["errors"], **seconds, **waits, **cpu_ms}
    return figures | {"rss_mb": round(peak_mb(server.pid), 1)}


async def _asked(admin: Connection, method: str, path: str, body: bytes = b"") -> dict[str, object]:
    status, answer = await admin.request(method, path, body)
    if status not in (200, 201):
        raise BenchmarkError(f"{method} {path} was answered with {status}: {answer.decode()}")
    found: dict[str, object] = json.loads(answer)
    return found


async def _quiet(server: Server) -> float:
    """Wait until the server has nothing to do but to answer the probe; return what that costs, in seconds a second."""
    while True:
        used = server.cpu_s
        await asyncio.sleep(_QUIET_FOR_S)
        used = server.cpu_s - used
        if used <= _QUIET_CPU_S:
            return used / _QUIET_FOR_S


async def _closed(admin: Connection) -> None:
    while True:
        status, answer = await admin.request("GET", "/v1/rounds?limit=1")
        state = json.loads(answer)[0]["state"] if status == 200 else "unknown"
        if state == "done":
            return
        if state != "open":
            raise BenchmarkError(f"the round is {state}: {answer.decode()}")
        await asyncio.sleep(0.2)


def _p99_ms(seconds: list[float]) -> float:
    return round(statistics.quantiles(seconds, n=100, method="inclusive")[98] * 1000, 1)


@contextmanager
def probing(server: Server) -> Iterator[dict[str, Any]]:
    """Probe a server meanwhile; the latencies are there at the end."""
    command = [sys.executable, "-m", "benchmarks.load.probe", server.url]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **_TOKENS}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = {}
    try:
        yield found
        found.update(json.loads(process.communicate("", timeout=60)[0]))
    finally:
        process.kill()
        process.wait(30)


def main() -> int:
    """Print what the fleet cost."""
    parser = Command("benchmarks.load", __doc__)
    parser.add_argument("--devices", type=int, default=1000, metavar="N", help="of the fleet (1000)")
    parser.add_argument("--limit", type=int, default=300, metavar="S", help="seconds after which it is given up (300)")

    def work(options: argparse.Namespace) -> object:
        with (
            tempfile.TemporaryDirectory() as folder,
            running(Path(folder), "--enrol-per-minute", str(options.devices), **_TOKENS) as server,
        ):
            load = asyncio.run(asyncio.wait_for(measure(server, options.devices), options.limit))
        print(
            "{devices} devices, {errors} errors: enrolled in {enrol_s} s, woken in {wake_s} s, uploads taken in "
            "{upload_s} s, round closed in {close_s} s\n"
            "health {health_p99_ms} ms, administrator {admin_p99_ms} ms (99th percentiles)\n"
            "processor time of the server: {enrol_cpu_ms} ms an enrolment, {wake_cpu_ms} ms a wake-up, "
            "{upload_cpu_ms} ms an upload; memory {rss_mb} MB".format_map(load)
        )
        return load

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
