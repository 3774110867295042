"""How fast a server answers whose database is large, and what opening a round costs there.

A script fills the tables of a new data folder: devices, rounds with 100 participants each and what these uploaded and
learned, reputations, classes, the audit. A real aggregator then runs on it in a process of its own. Every page of the
dashboard, every list of the REST interface, the metrics and a device's requests are asked for over a socket, one after
the other. So are queries that work in the server itself: of `doctor`, of the command line, and the opening of a round.
`cpu_ms` is the processor time of a call: on a machine that does other things too, the other figures are larger.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import httpx

from aggregator_server.cli import main as aggregator
from aggregator_server.rounds.devices.work import next_work
from aggregator_server.rounds.lifecycle import cancel_round, open_round
from aggregator_server.rounds.queries import read_waiting
from aggregator_server.schemas import RoundRequest
from aggregator_server.store import Store
from aggregator_server.upkeep.doctor import examine
from benchmarks.command import Command, said
from benchmarks.large_database.content import fill, identifier, refresh, secret_of
from benchmarks.processes import peak_mb, running
from fleet_protocol.messages import Choice

LIMIT_MS = 200.0


def requests(devices: int, rounds: int) -> dict[str, tuple[str, str]]:
    """Return what is asked for, by its name for people: (the token to ask with, the address)."""
    device, last = identifier(devices // 2), rounds - 1
    late = f"{devices * 9 // 10:07d}"
    api = {
        "devices": "/v1/devices",
        "devices, from the middle": f"/v1/devices?limit=1000&after={device}",
        "rounds": "/v1/rounds",
        "rounds, 1000 from the middle": f"/v1/rounds?limit=1000&before={rounds // 2}",
        "round": f"/v1/rounds/{last}",
        "schedules": "/v1/schedules",
        "classes": "/v1/classes",
        "class history": "/v1/class-history",
        "public set": "/v1/public-set",
        "model": "/v1/model",
        "tokens": "/v1/tokens",
        "invitations": "/v1/invitations",
        "audit": "/v1/audit",
        "audit, rare kind": "/v1/audit?what=round_restored",
        "audit, 1000 from the middle": f"/v1/audit?limit=1000&before={devices // 2}",
        "metrics": "/metrics",
        "health": "/v1/health",
    }
    pages = {
        "overview": "/",
        "fleet": "/fleet",
        "fleet, by name": "/fleet?sort=name",
        "fleet, by name, down": "/fleet?sort=name&order=down",
        "fleet, by last seen": "/fleet?sort=seen",
        "fleet, by network": "/fleet?sort=network",
        "fleet, by version, down": "/fleet?sort=version&order=down",
        "fleet, by clips": "/fleet?sort=clips&order=down",
        "fleet, a name's beginning": f"/fleet?search=attic+{late[:4]}",
        "fleet, a common beginning": "/fleet?search=kitchen&sort=seen",
        "fleet, nothing found": "/fleet?search=nothing+is+called+so",
        "fleet, identifier": f"/fleet?search={device[:8]}",
        "fleet, a group": "/fleet?group=site+0007",
        "fleet, a group by name": "/fleet?group=site+0007&sort=name",
        "fleet, a network by clips": "/fleet?network=cnn2&sort=clips",
        "fleet, a version": "/fleet?version=99.1.0",
        "fleet, silent": "/fleet?state=silent",
        "fleet, waiting by name": "/fleet?state=waiting&sort=name",
        "fleet, quarantine": "/fleet?state=quarantine",
        "fleet, outdated by name": "/fleet?state=outdated&sort=name",
        "fleet, well": "/fleet?state=well&sort=clips",
        "fleet, revoked of a group": "/fleet?state=revoked&group=site+0007",
        "device": f"/fleet/{device}",
        "rounds (page)": "/rounds",
        "rounds (page), older": f"/rounds?before={rounds // 2}",
        "round (page)": f"/rounds/{last}",
        "new round": "/rounds/new",
        "classes (page)": "/classes",
        "class (page)": "/classes/s7",
        "audit (page)": "/audit",
        "audit (page), kind": "/audit?what=signed_in",
        "audit (page), rare kind": "/audit?what=round_restored",
        "audit (page), who": "/audit?who=person+7",
        "audit (page), days": "/audit?since=2025-06-01&until=2025-06-02",
        "audit (page), kind and days": "/audit?what=signed_in&until=2025-06-02",
        "audit (page), oldest": "/audit?before=60",
        "invitations (page)": "/invitations",
        "help": "/help/dashboard",
    }
    own = {"work": "/v1/work?wait_s=0", "own device": "/v1/devices/me"}
    found = {name: ("admin", path) for name, path in api.items()}
    found |= {name: ("page", path) for name, path in pages.items()}
    return found | {name: ("device", path) for name, path in own.items()}


def measure(folder: Path, devices: int, rounds: int, turns: int) -> list[dict[str, Any]]:
    """Ask a server on the folder for everything, several times each; return a row for each name."""
    rows = []
    with running(folder) as server, _clients(folder, server.url) as clients:
        for name, (who, path) in requests(devices, rounds).items():
            times, used = [], 0.0
            for turn in range(turns + 1):
                client = clients(who, turn)
                used = server.cpu_s if turn == 1 else used
                begun = time.perf_counter()
                answer = client.get(path)
                times.append(1_000 * (time.perf_counter() - begun))
                answer.raise_for_status()
            cpu_ms = round(1_000 * (server.cpu_s - used) / turns, 1)
            rows.append(said(_row(name, times) | {"cpu_ms": cpu_ms, "bytes": len(answer.content)}))
        rows.append(said({"name": "server", "peak_mb": round(peak_mb(server.pid), 1)}))
    return rows


@contextmanager
def _clients(folder: Path, url: str) -> Iterator[Callable[[str, int], httpx.Client]]:
    """Give the clients of the administrator, of somebody who signed in to the pages, and of devices."""
    admin = json.loads((folder / "tokens.json").read_text())["admin"]
    options: dict[str, Any] = {"base_url": url, "timeout": 120, "trust_env": False}
    with httpx.Client(**options) as page, httpx.Client(**options) as api:
        form = re.search(r'name="form_token" value="([0-9a-f]{64})"', page.get("/sign-in").text)
        assert form is not None
        page.post("/sign-in", data={"form_token": form[1], "token": admin})

        def client(who: str, turn: int) -> httpx.Client:
            if who == "page":
                return page
            api.headers["Authorization"] = f"Bearer {admin if who == 'admin' else secret_of(1_000 + turn)}"
            return api

        yield client


def _row(name: str, times: list[float]) -> dict[str, Any]:
    """Return the figures of calls, ms; the first is not among the others: it may read from the disk."""
    first, *others = times
    tail = statistics.quantiles(others, n=20, method="inclusive")[-1] if len(others) > 1 else others[0]
    return {
        "name": name,
        "median_ms": round(statistics.median(others), 1),
        "p95_ms": round(tail, 1),
        "first_ms": round(first, 1),
    }


def measure_inside(folder: Path, turns: int) -> list[dict[str, Any]]:
    """Time what works on the tables without HTTP: a device's poll, `doctor`, the command line's lists."""
    rows = []

    def time_it(name: str, work: Callable[[], object]) -> None:
        times, used = [], 0.0
        for turn in range(turns + 1):
            used = time.process_time() if turn == 1 else used
            begun = time.perf_counter()
            work()
            times.append(1_000 * (time.perf_counter() - begun))
        cpu_ms = round(1_000 * (time.process_time() - used) / turns, 1)
        rows.append(said(_row(name, times) | {"cpu_ms": cpu_ms}))

    def command(*arguments: str) -> None:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert aggregator([*arguments, "--data", str(folder)]) == 0

    time_it("doctor", lambda: examine(folder, time.time()))
    time_it("devices list", lambda: command("devices", "list"))
    time_it("devices release NAME", lambda: command("devices", "release", identifier(7)))
    time_it("audit list", lambda: command("audit"))
    time_it("invitations", lambda: command("invitations"))
    store = Store(folder)
    try:
        polling = identifier(5)
        time_it("a device's poll", lambda: next_work(store, polling, time.time()))
        with store.reading() as session:
            time_it("whether a round is complete", lambda: read_waiting(session, time.time()))
    finally:
        store.close()
    return rows


def measure_opening(folder: Path, devices: int) -> list[dict[str, Any]]:
    """Time the opening of rounds that select some or all devices: seconds, and the memory of the process by then."""
    rows = []
    store = Store(folder)
    try:
        for name, selection in (
            ("100 devices", Choice("uniform", {"fraction": 100 / devices})),
            ("every tenth device", Choice("dynamic", {"fraction": 0.1})),
            ("all devices", Choice("all", {})),
        ):
            before = peak_mb(os.getpid())
            begun, used = time.perf_counter(), time.process_time()
            wanted = RoundRequest("prototypes", selection=selection)
            round_id = open_round(store, wanted, time.time())
            seconds, cpu_s = time.perf_counter() - begun, time.process_time() - used
            with store.reading() as session:
                begun = time.perf_counter()
                read_waiting(session, time.time())
                asked = time.perf_counter() - begun
            cancel_round(store, round_id, time.time())
            rows.append(
                said(
                    {
                        "name": f"opening a round for {name}",
                        "seconds": round(seconds, 2),
                        "cpu_s": round(cpu_s, 2),
                        "more_mb": round(peak_mb(os.getpid()) - before, 1),
                        "complete_ms": round(1_000 * asked, 1),
                    }
                )
            )
    finally:
        store.close()
    return rows


def main() -> int:
    """Print a line for each request and, with ``--json``, one object as the last line."""
    parser = Command("benchmarks.large_database", __doc__)
    parser.add_argument("--devices", type=int, default=1_000_000, metavar="N", help="of the fleet (1000000)")
    parser.add_argument("--rounds", type=int, default=10_000, metavar="N", help="that are over (10000)")
    parser.add_argument("--turns", type=int, default=10, metavar="N", help="calls of each address (10)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep the content here, and use what is here")
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, object]:
    """Fill, measure and print; return the figures."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary) / "data"
        filled = None
        if not (folder / "auricle.db").exists():
            begun = time.perf_counter()
            fill(folder, options.devices, options.rounds)
            filled = round(time.perf_counter() - begun, 1)
        else:
            refresh(folder)
        size = round((folder / "auricle.db").stat().st_size / 1e6, 1)
        content = said({"devices": options.devices, "rounds": options.rounds, "fill_s": filled, "database_mb": size})
        answers = measure(folder, options.devices, options.rounds, options.turns)
        inside = measure_inside(folder, options.turns)
        opening = measure_opening(folder, options.devices)
        slow = [row for row in answers if row.get("p95_ms", 0) > LIMIT_MS]
        for row in sorted(slow, key=lambda row: -float(row["p95_ms"])):
            said({"slow": row["name"], "p95_ms": row["p95_ms"]})
        figures = {"answers": answers, "inside": inside, "opening": opening}
        return content | figures | {"slow": [row["name"] for row in slow]}


if __name__ == "__main__":
    sys.exit(main())
