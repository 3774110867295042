"""What a round costs beside the devices' own work: seconds on the aggregator and the wire, and bytes per device.

A real aggregator runs in a process of its own. Ten devices talk to it over sockets, as `auricle-edge` does: they ask
for work, fetch what they lack, send an upload that is ready beforehand, fetch the result, and report that they learned
it. So nothing but the round itself takes time. It is counted from the request that opens the round to the last report.
Devices share embeddings of words of `base`'s pretraining (strategy `prototypes`), or its head (`fedavg`).

Flower's figure is a round of ten clients in its simulation engine, which sends nothing over a network, less their
training; null where Flower is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.bundles import READY
from benchmarks.command import BenchmarkError, Command, said
from benchmarks.processes import Usage, running
from benchmarks.simulation import in_own_process
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import Bundle, read_bundle
from fleet_protocol.messages import ClassInfo, Update, Work, parse
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays, pack

STRATEGIES = ("prototypes", "fedavg")
CLASSES, OF_A_DEVICE, PUBLIC_CLIPS = 8, 4, 10
_WAIT_S = 30
_STEPS = 50


@dataclass
class Device:
    """A device without a model: it sends arrays that are ready beforehand."""

    number: int  # from 0
    bundle: Bundle  # whose front end and weights it has
    url: str  # of the aggregator
    enrol_token: str  # to enrol with
    up: int = 0  # bytes of the bodies that it sent
    down: int = 0  # bytes of the bodies that it received
    _blobs: set[str] = field(default_factory=set)

    @property
    def device_id(self) -> str:
        """Its identifier."""
        return f"{self.number:032x}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that it has clips of."""
        return tuple(sorted(f"c{(self.number + place) % CLASSES}" for place in range(OF_A_DEVICE)))

    def enrol(self) -> None:
        """Join the fleet."""
        manifest = self.bundle.manifest
        message = {
            "device_id": self.device_id,
            "secret": self._secret,
            "name": f"device {self.number}",
            "clips": 40,
            "architecture": manifest.architecture,
            "features": manifest.features,
            "labels": [],
        }
        with _client(self.url, self.enrol_token) as client:
            client.post("/v1/devices", json=message).raise_for_status()

    def take_part(self, rounds: int) -> None:
        """Take part until so many rounds were learned."""
        while rounds:
            found = self._answer(self._client.get("/v1/work", params={"wait_s": _WAIT_S}))
            if found.status_code == httpx.codes.NO_CONTENT:
                continue
            work = parse(Work, found.json())
            self._fetch(work)
            if work.kind == "contribute":
                self._send(f"/v1/rounds/{work.round_id}/update", "PUT", self._upload(work))
            else:
                report = json.dumps({"round_id": work.round_id, "metrics": {}, "personalised": work.fine_tune})
                self._send(f"/v1/rounds/{work.round_id}/learned", "POST", report.encode())
                rounds -= 1

    @cached_property
    def _client(self) -> httpx.Client:  # kept open from round to round, as a device keeps it
        return _client(self.url, self._secret)

    def close(self) -> None:
        """Leave."""
        self._client.close()

    @property
    def _secret(self) -> str:
        return f"secret-of-device-{self.number:020d}"

    def _answer(self, response: httpx.Response) -> httpx.Response:
        response.raise_for_status()
        self.down += len(response.content)
        return response

    def _fetch(self, work: Work) -> None:
        named = {work.public_set, work.consensus, work.model, work.weights, work.prototypes} - {None}
        for sha256 in sorted(str(name) for name in named - self._blobs):
            self._answer(self._client.get(f"/v1/blobs/{sha256}"))
            self._blobs.add(sha256)

    def _send(self, address: str, method: str, body: bytes) -> None:
        self.up += len(body)
        headers = {} if method == "PUT" else {"Content-Type": "application/json"}
        self._answer(self._client.request(method, address, content=body, headers=headers))

    def _upload(self, work: Work) -> bytes:
        rng = np.random.default_rng([self.number, work.round_id])
        manifest = self.bundle.manifest
        if work.plan.local.name == "prototypes":
            shape = (len(self.classes), *manifest.input_shape)
            arrays: Arrays = {
                "prototypes": rng.normal(size=shape).astype(np.float32),
                "counts": np.full(len(self.classes), 10, np.float32),
            }
            known = self.classes
        else:
            scaled = ((name, rng.uniform(0.9, 1.1) * array) for name, array in self.bundle.weights.items())
            arrays = {f"weights/{name}": array.astype(np.float32) for name, array in scaled}
            known = ()
        update = Update(
            round_id=work.round_id,
            device_id=self.device_id,
            features=manifest.feature_settings.digest,
            public_set=work.public_set,
            classes=self.classes,
            clips=40,
            known=known,
            label_entropy=1.0,
        )
        return pack(arrays, asdict(update))


def measure(strategy: str, devices: int, rounds: int) -> dict[str, Any]:
    """Run rounds of a strategy on an aggregator of its own. Raises BenchmarkError: a round failed.

    Returns:
        ``strategy``; medians of the rounds after the first: ``overhead_s``, seconds beside the devices' own work;
        ``cpu_s``, processor seconds of the aggregator and of what stands for the devices, less than the former where
        the disk or another program is waited for, and ``server_cpu_s``, the aggregator's part of that; ``bytes_up`` and
        ``bytes_down``, bodies that a device sends and receives; and ``first_bytes_down``, the same in the first round,
        public set and model included.
    """
    bundle = read_bundle(READY / "base.auricle")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server, ExitStack() as clients:
        tokens = json.loads((Path(folder) / "tokens.json").read_text())
        admin = clients.enter_context(_client(server.url, tokens["admin"]))
        admin.put("/v1/public-set", content=_public_set(bundle).pack()).raise_for_status()
        if strategy != "prototypes":
            admin.put("/v1/model", content=(READY / "base.auricle").read_bytes()).raise_for_status()
        fleet = [Device(number, bundle, server.url, tokens["enrol"]) for number in range(devices)]
        for device in fleet:
            device.enrol()
            clients.callback(device.close)
        usage = Usage()
        seconds, cpu, of_server, up, down = [], [], [], [], []
        for _ in range(rounds):
            before, used = [(device.up, device.down) for device in fleet], usage.look()
            served = server.all_cpu_s
            seconds.append(_timed(admin, strategy, fleet))
            cpu.append(usage.look() - used)
            of_server.append(server.all_cpu_s - served)
            up.append(statistics.median(device.up - was for device, (was, _) in zip(fleet, before, strict=True)))
            down.append(statistics.median(device.down - was for device, (_, was) in zip(fleet, before, strict=True)))
    names = ("overhead_s", "cpu_s", "server_cpu_s")
    figures = {
        name: round(statistics.median(of[1:]), 4) for name, of in zip(names, (seconds, cpu, of_server), strict=True)
    }
    sent = {name: int(statistics.median(of[1:])) for name, of in (("bytes_up", up), ("bytes_down", down))}
    return {"strategy": strategy, **figures, **sent, "first_bytes_down": int(down[0])}


def _timed(admin: httpx.Client, strategy: str, fleet: list[Device]) -> float:
    """Run one round; return its seconds, from the request to the last device's report."""
    threads = [threading.Thread(target=device.take_part, args=(1,)) for device in fleet]
    for thread in threads:
        thread.start()
    time.sleep(0.3)  # so that all of them wait for work, as devices do
    begun = time.perf_counter()
    opened = admin.post("/v1/rounds", json={"strategy": strategy, "quorum": 1.0})
    opened.raise_for_status()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    state = admin.get(f"/v1/rounds/{opened.json()['round_id']}").json()["summary"]["state"]
    if state != "done":
        raise BenchmarkError(f"the round of {strategy!r} is {state}, and not done")
    return seconds


def _public_set(bundle: Bundle) -> PublicSet:
    found = bundle.manifest.embedding_statistics
    assert found is not None
    features = found.samples[:CLASSES, :PUBLIC_CLIPS].reshape(-1, *bundle.manifest.input_shape)
    labels = np.repeat(np.arange(CLASSES, dtype=np.int64), len(features) // CLASSES)
    classes = tuple(ClassInfo(f"c{index}", word) for index, word in enumerate(found.words[:CLASSES]))
    return PublicSet(bundle.manifest.feature_settings, classes, features, labels, np.zeros(len(labels), np.bool_))


def _client(url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=90, trust_env=False)


def flower_overhead_s(devices: int, rounds: int, limit_s: int) -> float | None:
    """Return the seconds of a round of Flower's simulation beside its clients' training; None without Flower."""
    if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("ray") is None:
        return None
    path = READY / "base.auricle"
    options = argparse.Namespace(rounds=rounds, workers=1, limit=limit_s)
    found = in_own_process("flower", path, devices, options)
    return round(float(found["seconds_per_round"]) - devices * _step_s(path), 4)


def _step_s(path: Path) -> float:
    """Return the seconds of what one of Flower's clients does: one step on one batch."""
    model = ModelRuntime.open(path)
    manifest = model.manifest
    x = np.zeros((manifest.batch, *manifest.input_shape), np.float32)
    targets, mask = np.zeros((manifest.batch, manifest.capacity), np.float32), np.ones(manifest.capacity, np.float32)

    def timed(step: Callable[[], Any]) -> float:
        begun = time.perf_counter()
        step()
        return time.perf_counter() - begun

    times = [timed(lambda: model.train_step(x, targets, mask, learning_rate=0.02)) for _ in range(_STEPS)]
    return statistics.median(times)


def main() -> int:
    """Print a line for each strategy and, with ``--json``, one object as the last line."""
    parser = Command("benchmarks.round_overhead", __doc__)
    parser.add_argument("--devices", type=int, default=10, metavar="N", help="of the fleet (10)")
    parser.add_argument("--rounds", type=int, default=6, metavar="N", help="of each strategy, at least 2 (6)")
    parser.add_argument("--without-flower", action="store_true", help="measure Auricle alone")
    parser.add_argument("--limit", type=int, default=300, metavar="S", help="seconds for Flower (300)")
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, object]:
    """Print a line for each strategy; return the figures."""
    costs = [said(measure(strategy, options.devices, options.rounds)) for strategy in STRATEGIES]
    flower = None if options.without_flower else flower_overhead_s(options.devices, options.rounds, options.limit)
    figures = {"devices": options.devices, "overhead_s": costs[0]["overhead_s"], "flower_overhead_s": flower}
    return said(figures | {"strategies": costs})


if __name__ == "__main__":
    sys.exit(main())
