"""Fleets of private rounds: through the core, where time is what the test says, and over HTTP."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np

from aggregator_server.rounds.devices.private_answers import take_answer
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.schemas import PrivateRequest
from fleet_protocol.messages.private_rounds import EncryptedShares, RevealedShares, RoundKeys
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Receipt, Work, parse
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from tests.support.aggregator_process import Fleet
from tests.support.core_fleet import CoreFleet
from tests.support.embedded_words import NUMBERS, embedded_public_set
from tests.support.private_device import PrivateDevice

ANSWERS = {"keys": RoundKeys, "shares": EncryptedShares, "unmask": RevealedShares}


def private_devices(count: int, first: int = 1) -> list[PrivateDevice]:
    """Devices with two of four classes each."""
    return [PrivateDevice(n, (f"c{n % 4}", f"c{(n + 1) % 4}")) for n in range(first, first + count)]


class PrivateCoreFleet(CoreFleet):
    def __init__(self, folder: Path, devices: list[PrivateDevice], public: PublicSet | None = None):
        super().__init__(folder, devices, public or embedded_public_set(np.random.default_rng(7)))

    def open_private(
        self, now: float = 100.0, strategy: str = "prototypes", groups: int = 8, epsilon=None, **request
    ) -> int:
        return self.open(now, strategy, private=PrivateRequest(groups, epsilon), **request)

    def answer(self, device: PrivateDevice, now: float = 101.0) -> Work | None:
        """Have a device do its work; return that."""
        work = self.work(device, now)
        if work is not None:
            self.give(device, work, device.answer(work), now)
        return work

    def give(self, device: PrivateDevice, work: Work, answer: dict | bytes, now: float = 101.0) -> Receipt | None:
        if work.kind == "contribute":
            device.sealed = work.private.shares
            return self.send(device, work.round_id, answer, now)
        take_answer(self.store, work.round_id, device.device_id, ANSWERS[work.kind](**answer), now)
        return None

    def stage(self, stage: str, devices=None, now: float = 101.0) -> int | None:
        """Have devices answer in a stage, then the round move on; return its number where that ended it."""
        for device in self.devices if devices is None else devices:
            work = self.answer(device, now)
            assert work is not None
            assert work.kind == stage
        return advance(self.store, now)

    def play(self, now: float = 101.0, uploading: int | None = None) -> int:
        """Go through all stages of the open round, in which so many of the devices upload; return its number."""
        there = self.devices[:uploading]
        for stage in ("keys", "shares"):
            assert self.stage(stage, now=now) is None
        self.stage("contribute", there, now)
        if len(there) < len(self.devices):
            assert self.advance(now - 1 + 600 * 7 / 8) is None
        ended = self.stage("unmask", there, now)
        assert ended is not None
        return ended

    def prototypes(self, digest: str) -> FleetPrototypes:
        return FleetPrototypes.unpack(self.store.blobs.read(digest))


def plain_means(devices: list[PrivateDevice], vote_cap: float = 3.0) -> dict[str, np.ndarray]:
    """The weighted mean of what devices have, by class, float64 [numbers]."""
    sums, weights = {}, {}
    for device in devices:
        prototypes, clips = device.takes()
        for class_id, row, count in zip(device.classes, prototypes, clips, strict=True):
            weight = min(float(count), vote_cap)
            sums[class_id] = sums.get(class_id, np.zeros(NUMBERS)) + weight * row[0].astype(np.float64)
            weights[class_id] = weights.get(class_id, 0.0) + weight
    return {class_id: sums[class_id] / weights[class_id] for class_id in sums}


class PrivateFleet(Fleet):
    """Devices of private rounds at a real server, over HTTP."""

    def publish(self, **_) -> httpx.Response:
        return self.admin.put("/v1/public-set", content=embedded_public_set(np.random.default_rng(7)).pack())

    def open_private(self, groups: int = 8, **request) -> int:
        return self.open_round(strategy="prototypes", private={"groups": groups}, **request)

    def private_work(self, device: PrivateDevice, wait_s: float = 0) -> Work | None:
        found = self.work(device, wait_s)
        return None if found is None else parse(Work, found)

    def put(self, device: PrivateDevice, work: Work, answer: dict | bytes) -> httpx.Response:
        """Send what a device has for a stage."""
        client, address = self.clients[device.number], f"/v1/rounds/{work.round_id}"
        if work.kind == "contribute":
            device.sealed = work.private.shares
            return client.put(f"{address}/update", content=answer)
        return client.put(f"{address}/private/{work.kind}", json=answer)

    def answers(self, round_id: int) -> Iterator[tuple[str, httpx.Response]]:
        """Have devices do their work until the round is over; yield each stage, and what the server says."""
        for device in itertools.cycle(self.devices):
            work = self.private_work(device)
            if work is not None and work.kind != "learn":
                yield work.kind, self.put(device, work, device.answer(work))
            elif self.round(round_id)["summary"]["state"] != "open":
                return
