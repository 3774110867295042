"""Devices that go through rounds of `prototypes`, open ones and private ones, and answer at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from benchmarks.load.fleet import Device, Fleet
from benchmarks.load.probe import Connection
from fleet_protocol.bundle.feature_settings import PRESETS, EmbeddingSettings, FrozenNetwork
from fleet_protocol.messages.private_rounds import RevealedShares
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo, Update, Work, parse
from fleet_protocol.numbers.tensors import Arrays, pack
from fleet_protocol.secure_sums.layouts import MASKED, SumLayout
from fleet_protocol.secure_sums.primitives import signing_public_key
from fleet_protocol.secure_sums.roster import Roster, context_digest
from fleet_protocol.secure_sums.round_secret import RoundSecret

NUMBERS, KNOWN = 64, 10  # of an embedding of `words`; classes that a device has
_MEL = asdict(PRESETS["log_mel"]) | {"preset": "any"}
SETTINGS = EmbeddingSettings(**_MEL, numbers=NUMBERS, network=FrozenNetwork.of(b"a network"))
_WAIT_S = 20


def embedded_public_set(classes: int) -> PublicSet:
    """Return two random embeddings of every class."""
    labels = np.arange(2 * classes) % classes
    features = np.random.default_rng(0).normal(size=(len(labels), *SETTINGS.shape)).astype(np.float32)
    infos = tuple(ClassInfo(f"c{index}", f"word {index}") for index in range(classes))
    return PublicSet(SETTINGS, infos, features, labels, np.zeros(len(labels), np.bool_))


class PrivateFleet(Fleet):
    """Devices whose numbers are random; ``stages``: bytes that were sent and received in each, of all devices."""

    def __init__(self, urls: Sequence[str], tokens: Sequence[str]) -> None:
        super().__init__(urls, tokens)
        self.stages: dict[str, list[int]] = {}
        self._sealed: dict[int, dict[str, str]] = {}

    async def enrol(self, device: Device) -> None:
        """Join, with a key for private rounds."""
        secret = f"secret-of-device-{device.number:020d}"
        message = {"device_id": device.device_id, "secret": secret, "name": f"device {device.number}"}
        message |= {"architecture": "load", "signing_key": signing_public_key(_key(device))}
        body = json.dumps(message | {"features": SETTINGS.to_json(), "labels": ["kettle"]}).encode()
        await self._send(device, "POST", "/v1/devices", (200,), body)
        device.connection.token = secret

    async def take_part(self, device: Device) -> None:
        """Do a round's work, but for learning its result."""
        kind = ""
        while not self.errors and kind not in ("upload", "unmask"):
            before = _traffic(device.connection)
            answer = await self._send(device, "GET", f"/v1/work?wait_s={_WAIT_S}", (200, 204))
            if not answer:
                continue
            work = parse(Work, json.loads(answer))
            kind = "upload" if work.plan.private is None else work.kind
            where = "update" if work.kind == "contribute" else f"private/{work.kind}"
            body = self._answer(device, work)
            await self._send(device, "PUT", f"/v1/rounds/{work.round_id}/{where}", (200, 204), body)
            counted = self.stages.setdefault(kind, [0, 0])
            for index, total in enumerate(_traffic(device.connection)):
                counted[index] += total - before[index]

    async def learn(self, device: Device) -> None:
        """Say that the result was learned."""
        work = json.loads(await self._send(device, "GET", f"/v1/work?wait_s={_WAIT_S}", (200,)) or "{}")
        body = json.dumps({"round_id": work["round_id"], "metrics": {}}).encode()
        await self._send(device, "POST", f"/v1/rounds/{work['round_id']}/learned", (200, 204), body)

    def _answer(self, device: Device, work: Work) -> bytes:
        class_ids = tuple(info.class_id for info in work.classes)
        rng = np.random.default_rng(device.number)
        rows = rng.permutation(len(class_ids))[:KNOWN]
        means = rng.normal(size=(len(rows), *SETTINGS.shape)).astype(np.float32)
        if work.plan.private is None:
            arrays = {"prototypes": means, "counts": np.full(len(rows), 4, np.float32)}
            return _packed(device, work, arrays, tuple(class_ids[row] for row in rows), clips=40)
        secret = RoundSecret(device.device_id, device.number.to_bytes(16) + work.round_id.to_bytes(16))
        context = context_digest(work.round_id, work.plan, work.public_set, class_ids)
        if work.kind == "keys":
            return _json(secret.keys(_key(device), context))
        assert work.private is not None
        roster = Roster(context, work.private.members)
        if work.kind == "shares":
            return _json(secret.encrypted_shares(roster))
        if work.kind == "contribute":
            self._sealed[device.number] = work.private.shares
            numbers = SumLayout.of(work.plan, len(class_ids), SETTINGS.shape).own(
                {int(row): ([mean], 4, 0.0) for row, mean in zip(rows, means, strict=True)}
            )
            return _packed(device, work, {MASKED: secret.masked(roster, numbers, work.private.taking_part)}, class_ids)
        held = secret.opened(roster, self._sealed[device.number])
        held[device.device_id] = secret.own_shares(roster)[device.device_id]
        return _json(RevealedShares({one: shares.self_seed.hex() for one, shares in held.items()}, {}))


def _key(device: Device) -> bytes:
    return device.number.to_bytes(32)


def _traffic(connection: Connection) -> tuple[int, int]:
    return connection.sent, connection.received


def _json(message: object) -> bytes:
    return json.dumps(asdict(message)).encode()  # type: ignore[call-overload]


def _packed(device: Device, work: Work, arrays: Arrays, class_ids: tuple[str, ...], clips: int = 0) -> bytes:
    said = Update(
        round_id=work.round_id,
        device_id=device.device_id,
        features=SETTINGS.digest,
        public_set=work.public_set,
        classes=class_ids,
        clips=clips,
        known=class_ids,
    )
    return pack(arrays, asdict(said))
