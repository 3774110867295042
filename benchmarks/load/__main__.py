"""A fleet that does everything at once: enrols, wakes when a round opens, uploads 206 kB each, and the round closes.

Seconds of each phase, 99th percentiles of what is asked meanwhile, and the server's processor time for each device.

A real aggregator runs in a process of its own. All devices share a second one, and a third asks for the server's health
(20 times a second) and for what an administrator asks, from the first enrolment to the end of the round. So on two
cores they compete with the server for the processor.

With --servers several aggregators share a database and a store, which the options name and which are empty; each has
as many devices as the others, and the third process asks the first of them. Their processor times are added up, without
those of the database and of the store; the memory is that of the largest.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aggregator_server.limits import DEVICES_PER_ENROLMENT_TOKEN, DEVICES_PER_INVITATION
from benchmarks.command import ROOT, BenchmarkError, Command, said
from benchmarks.load.fleet import Fleet, public_set, shared_model
from benchmarks.load.private import PrivateFleet, embedded_public_set
from benchmarks.load.probe import Connection
from benchmarks.processes import Server, peak_mb, running
from benchmarks.proxy import proxied

_TOKENS = {"AURICLE_ADMIN_TOKEN": "administrator-of-the-load", "AURICLE_ENROL_TOKEN": "enrolment-of-the-load"}
_QUIET_CPU_S, _QUIET_FOR_S = 0.2, 1.0  # so little of the processor, for so long: the server only waits


@dataclass(frozen=True)
class Servers:
    """The servers of one fleet."""

    running: tuple[Server, ...]  # the first is asked by people
    proxy: str | None = None  # address of what stands before them; None: nothing

    @property
    def cpu_s(self) -> float:
        """Processor seconds that all of them have used, without what computes results."""
        return sum(server.cpu_s for server in self.running)

    @property
    def peak_mb(self) -> float:
        """The largest resident memory of one of them, MB."""
        return max(peak_mb(server.pid) for server in self.running)


async def measure(servers: Servers, devices: int) -> dict[str, float]:
    """Let a fleet go through one round. Raises BenchmarkError: the round failed."""
    urls = [servers.proxy or server.url for server in servers.running]
    admin = Connection(urls[0], _TOKENS["AURICLE_ADMIN_TOKEN"])
    for path, body in (("/v1/public-set", public_set().pack()), ("/v1/model", shared_model())):
        await _asked(admin, "PUT", path, body)
    fleet = Fleet(urls, await _tokens(admin, devices))
    opened: list[float] = []
    seconds: dict[str, float] = {}
    cpu_ms: dict[str, float] = {}

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        """Measure what happens within: seconds, and processor milliseconds of the server for each device."""
        begun, used = time.perf_counter(), servers.cpu_s
        yield
        took = time.perf_counter() - begun
        seconds[f"{name}_s"] = round(took, 3)
        cpu_ms[f"{name}_cpu_ms"] = round((servers.cpu_s - used - took * idle) * 1000 / devices, 2)

    with _probing(urls[0]) as probed:
        idle = await _quiet(servers)  # processor seconds of the server in a second in which only the probe asks
        with phase("enrol"):
            await fleet.together(fleet.enrol)
        waiting = asyncio.create_task(fleet.together(fleet.wait))
        await _quiet(servers)
        admin.close()  # the server has ended what was idle for so long; the next request connects anew
        with phase("wake"):
            begun = time.perf_counter()
            everybody = {"seen_within_s": 0}  # to enrol a large fleet takes minutes
            request = {"strategy": "fedavg", "quorum": 1.0, "deadline_s": 600, "selection": everybody}
            await _asked(admin, "POST", "/v1/rounds", json.dumps(request).encode())
            opened.append(time.perf_counter() - begun)
            await waiting
        if fleet.errors:
            raise BenchmarkError(f"{fleet.errors} errors before a device could upload; the first: {fleet.trouble}")
        with phase("upload"):
            await fleet.together(fleet.upload)
        admin.close()
        with phase("close"):
            await _closed(admin)
    fleet.close()
    admin.close()
    waits = {"health_p99_ms": _p99_ms(probed["health"]), "admin_p99_ms": _p99_ms(probed["admin"] + opened)}
    counts = {"devices": devices, "servers": len(urls), "errors": fleet.errors + probed["errors"]}
    return counts | seconds | waits | cpu_ms | {"rss_mb": round(servers.peak_mb, 1)}


async def measure_private(server: Server, devices: int, group: int, classes: int) -> dict[str, object]:
    """Let a fleet go through two open rounds of `prototypes` and two private ones; figures of each kind's second."""
    admin = Connection(server.url, _TOKENS["AURICLE_ADMIN_TOKEN"])
    await _asked(admin, "PUT", "/v1/public-set", embedded_public_set(classes).pack())
    fleet = PrivateFleet([server.url], await _tokens(admin, devices))
    await fleet.together(fleet.enrol)
    found: dict[str, object] = {"devices": devices, "group": group, "classes": classes}
    for kind in ("open", "private"):
        request = {"strategy": "prototypes", "quorum": 1.0, "deadline_s": 600, "selection": {"seen_within_s": 0}}
        request |= {"private": {"groups": group}} if kind == "private" else {}
        for _ in range(2):
            fleet.stages.clear()
            begun, used, own = time.perf_counter(), server.cpu_s, time.process_time()
            await _asked(admin, "POST", "/v1/rounds", json.dumps(request).encode())
            await fleet.together(fleet.take_part)
            admin.close()  # the server may have ended what was idle for so long
            await _closed(admin)
            seconds, cpu_s, own = time.perf_counter() - begun, server.cpu_s - used, time.process_time() - own
            await fleet.together(fleet.learn)
            if fleet.errors:
                raise BenchmarkError(f"{fleet.errors} errors in a round; the first: {fleet.trouble}")
        found |= {f"{kind}_s": round(seconds, 2), f"{kind}_cpu_ms": round(cpu_s * 1000 / devices, 2)}
        found |= {f"{kind}_devices_cpu_s": round(own, 2)}  # of the process that is all devices
        for stage, (sent, received) in fleet.stages.items():
            found |= {f"{stage}_sent": sent // devices, f"{stage}_received": received // devices}
    fleet.close()
    admin.close()
    return found


async def _tokens(admin: Connection, devices: int) -> list[str]:
    """Return what lets in each of so many devices."""
    tokens = [_TOKENS["AURICLE_ENROL_TOKEN"]] * min(devices, DEVICES_PER_ENROLMENT_TOKEN)
    while len(tokens) < devices:
        wanted = json.dumps({"devices": min(devices - len(tokens), DEVICES_PER_INVITATION)})
        invitation = await _asked(admin, "POST", "/v1/invitations", wanted.encode())
        tokens += [str(invitation["token"])] * json.loads(wanted)["devices"]
    return tokens


async def _asked(admin: Connection, method: str, path: str, body: bytes = b"") -> dict[str, object]:
    status, answer = await admin.request(method, path, body)
    if status not in (200, 201):
        raise BenchmarkError(f"{method} {path} was answered with {status}: {answer.decode()}")
    found: dict[str, object] = json.loads(answer)
    return found


async def _quiet(servers: Servers) -> float:
    """Wait until no server has anything to do but to answer the probe; return what that costs, in seconds a second."""
    while True:
        used = servers.cpu_s
        await asyncio.sleep(_QUIET_FOR_S)
        used = servers.cpu_s - used
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
def _probing(url: str) -> Iterator[dict[str, Any]]:
    """Probe a server meanwhile; the latencies are there at the end."""
    command = [sys.executable, "-m", "benchmarks.load.probe", url]
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


def _headline(report: dict[str, Any]) -> str:
    return (
        f"{report['devices']:,} devices: wake {report['wake_s']:.2f} s, health p99 {report['health_p99_ms']:.0f} ms, "
        f"an upload {report['upload_cpu_ms']:.1f} processor ms"
    )


def main() -> int:
    """Print what the fleet cost."""
    parser = Command("benchmarks.load", __doc__, _headline)
    parser.add_argument("--devices", type=int, default=1000, metavar="N", help="of the fleet (1000)")
    parser.add_argument("--limit", type=int, default=300, metavar="S", help="seconds after which it is given up (300)")

    about = "aggregators of one fleet (1); several need --database and --store"
    parser.add_argument("--servers", type=int, default=1, metavar="N", help=about)
    parser.add_argument("--database", metavar="URL", help="an empty PostgreSQL, instead of SQLite")
    parser.add_argument("--store", metavar="URL", help="an empty store, instead of a folder of the server")
    parser.add_argument("--proxy", action="store_true", help="nginx before the servers, by systemd/nginx.conf")

    about = "instead open and private rounds of `prototypes`, in groups of so many, and bytes of a device by stage"
    parser.add_argument("--private", type=int, metavar="SIZE", help=about)
    parser.add_argument("--classes", type=int, default=256, metavar="N", help="of those rounds (256)")

    def work(options: argparse.Namespace) -> object:
        if options.servers > 1 and not (options.database and options.store):
            raise BenchmarkError(f"--servers {options.servers} share a --database and a --store: name both")
        shared = ["--database", options.database] if options.database else []
        shared += ["--store", options.store] if options.store else []
        with tempfile.TemporaryDirectory() as parent, ExitStack() as stack:

            def start(number: int) -> Server:
                folder = Path(parent, str(number))
                folder.mkdir()
                given = ("--enrol-per-minute", str(options.devices), "--behind-proxy", "127.0.0.1", *shared)
                return stack.enter_context(running(folder, *given, create=number == 0, **_TOKENS))

            servers = Servers(tuple(map(start, range(options.servers))))
            if options.private:
                round_ = measure_private(servers.running[0], options.devices, options.private, options.classes)
                return said(asyncio.run(asyncio.wait_for(round_, options.limit)))
            if options.proxy:
                urls = [server.url for server in servers.running]
                servers = replace(servers, proxy=stack.enter_context(proxied(Path(parent, "proxy"), urls)))
            return said(asyncio.run(asyncio.wait_for(measure(servers, options.devices), options.limit)))

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
