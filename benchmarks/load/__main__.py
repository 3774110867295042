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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bundles import ROOT, BenchmarkError
from benchmarks.load.connection import Connection
from benchmarks.load.fleet import Fleet, public_set, shared_model
from benchmarks.processes import cpu_s, peak_mb

_TOKENS = {"AURICLE_ADMIN_TOKEN": "administrator-of-the-load", "AURICLE_ENROL_TOKEN": "enrolment-of-the-load"}
_QUIET_CPU_S, _QUIET_FOR_S = 0.2, 1.0  # so little of the processor, for so long: the server only waits


@dataclass(frozen=True)
class Load:
    """What a fleet cost.

    Attributes:
        devices: Number of devices.
        errors: Number of requests that failed.
        enrol_s: Seconds until all were enrolled.
        wake_s: Seconds from the request that opens a round until every device, all of which waited, has its work.
        upload_s: Seconds until all uploads were taken.
        close_s: Seconds from there until the round is done.
        health_p99_ms: 99th percentile of the latency of ``GET /v1/health`` throughout.
        admin_p99_ms: The same of an administrator's requests, the one that opens the round included.
        enrol_cpu_ms: Processor time of the server for an enrolment, without what the probe costs.
        wake_cpu_ms: The same for a device that wakes.
        upload_cpu_ms: The same for an upload.
        rss_mb: Largest resident memory of the server.
    """

    devices: int
    errors: int
    enrol_s: float
    wake_s: float
    upload_s: float
    close_s: float
    health_p99_ms: float
    admin_p99_ms: float
    enrol_cpu_ms: float
    wake_cpu_ms: float
    upload_cpu_ms: float
    rss_mb: float


@dataclass(frozen=True)
class Server:
    """A running aggregator.

    Attributes:
        url: Its address.
        pid: Its process, not the one that computes results.
    """

    url: str
    pid: int

    @property
    def cpu_s(self) -> float:
        """Processor seconds that it has used."""
        return cpu_s(self.pid)

    @property
    def peak_mb(self) -> float:
        """The most memory that it held, MB."""
        return peak_mb(self.pid)


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


async def measure(server: Server, devices: int) -> Load:
    """Let a fleet go through one round.

    Raises:
        BenchmarkError: the round failed.
    """
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
    return Load(
        devices=devices,
        errors=fleet.errors + probed["errors"],
        enrol_s=phases.seconds["enrol"],
        wake_s=phases.seconds["wake"],
        upload_s=phases.seconds["upload"],
        close_s=phases.seconds["close"],
        health_p99_ms=_p99_ms(probed["health"]),
        admin_p99_ms=_p99_ms(probed["admin"] + opened),
        enrol_cpu_ms=phases.cpu_ms["enrol"],
        wake_cpu_ms=phases.cpu_ms["wake"],
        upload_cpu_ms=phases.cpu_ms["upload"],
        rss_mb=round(server.peak_mb, 1),
    )


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
def running(folder: Path, devices: int) -> Iterator[Server]:
    """Run an aggregator with a data folder, which so many devices may join at once."""
    command = [sys.executable, "-m", "aggregator_server.cli", "run", "--data", str(folder), "--port", "0"]
    command += ["--create", "--enrol-per-minute", str(devices)]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **_TOKENS}, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise BenchmarkError((folder / "server.log").read_text())
        yield Server(json.loads(line)["url"], process.pid)
    finally:
        process.terminate()
        process.wait(30)


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


def main() -> None:
    """Print what the fleet cost and, with ``--json``, one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1000, metavar="N", help="of the fleet (1000)")
    parser.add_argument("--limit", type=int, default=300, metavar="S", help="seconds after which it is given up (300)")
    parser.add_argument("--json", action="store_true", help="end with a JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), options.devices) as server:
        load = asyncio.run(asyncio.wait_for(measure(server, options.devices), options.limit))
    print(
        f"{load.devices} devices, {load.errors} errors: enrolled in {load.enrol_s} s, woken in {load.wake_s} s, "
        f"uploads taken in {load.upload_s} s, round closed in {load.close_s} s\n"
        f"health {load.health_p99_ms} ms, administrator {load.admin_p99_ms} ms (99th percentiles)\n"
        f"processor time of the server: {load.enrol_cpu_ms} ms an enrolment, {load.wake_cpu_ms} ms a wake-up, "
        f"{load.upload_cpu_ms} ms an upload; memory {load.rss_mb} MB"
    )
    if options.json:
        print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
