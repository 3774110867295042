"""A fleet without models: devices that enrol, wait for work and upload, each on a connection of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.load.probe import Connection
from fleet_protocol.bundle.bundle_file import Layer, Manifest, write_bundle
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo, Update
from fleet_protocol.numbers.tensors import Arrays, pack

SETTINGS = PRESETS["gudur"]
CLASSES, CAPACITY = 8, 16
# A network whose upload has 206 kB.
SHAPES = {"body/kernel": (196, 256), "head/kernel": (64, CAPACITY), "head/bias": (CAPACITY,)}
_WAIT_S = 60


def shared_model() -> bytes:
    """Return a bundle with weights of ``SHAPES``; the aggregator never runs its graph."""
    layers = (Layer("body", ("body/kernel",)), Layer("head", ("head/kernel", "head/bias")))
    manifest = Manifest(
        architecture="load",
        options={},
        capacity=CAPACITY,
        batch=1,
        input_shape=SETTINGS.shape,
        embedding=64,
        features=SETTINGS.to_json(),
        mean=(0.0,),
        std=(1.0,),
        layers=layers,
        weight_shapes=SHAPES,
        parameters=sum(int(np.prod(shape)) for shape in SHAPES.values()),
        seed=0,
    )
    return write_bundle(manifest, b"", _weights(0))


def public_set() -> PublicSet:
    """Return ten random recordings of every class."""
    rng, count = np.random.default_rng(0), 10 * CLASSES
    classes = tuple(ClassInfo(f"c{index}", f"word {index}") for index in range(CLASSES))
    features = rng.normal(size=(count, *SETTINGS.shape)).astype(np.float32)
    return PublicSet(SETTINGS, classes, features, np.arange(count) % CLASSES, np.zeros(count, np.bool_))


def _weights(seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


@dataclass
class Device:
    """A device."""

    number: int  # From 1
    connection: Connection  # Its connection to the aggregator
    work: dict[str, Any] = field(default_factory=dict)  # Its last work

    @property
    def device_id(self) -> str:
        """Its identifier."""
        return f"{self.number:032x}"


class Fleet:
    """All devices."""

    def __init__(self, urls: Sequence[str], tokens: Sequence[str]) -> None:
        """Have a device for each of the tokens that let one in, each at one of the addresses in turn."""
        self.devices = [
            Device(number, Connection(urls[number % len(urls)], token)) for number, token in enumerate(tokens, 1)
        ]
        self.errors, self.trouble = 0, ""
        self._arrays = {f"weights/{name}": array for name, array in _weights(1).items()}

    def close(self) -> None:
        """Close every connection."""
        for device in self.devices:
            device.connection.close()

    async def together(self, action: Callable[[Device], Awaitable[None]]) -> None:
        """Have all devices do one of the following at once."""

        async def one(device: Device) -> None:
            try:
                await action(device)
            except (OSError, EOFError) as error:
                device.connection.close()
                self._note(f"{action.__name__}: {type(error).__name__}: {error}")

        await asyncio.gather(*map(one, self.devices))

    async def enrol(self, device: Device) -> None:
        """Join."""
        secret = f"secret-of-device-{device.number:020d}"
        message = {
            "device_id": device.device_id,
            "secret": secret,
            "name": f"device {device.number}",
            "architecture": "load",
            "features": SETTINGS.to_json(),
            "labels": ["kettle", "tap"],
            "clips": 40,
        }
        await self._send(device, "POST", "/v1/devices", (200,), json.dumps(message).encode())
        device.connection.token = secret

    async def wait(self, device: Device) -> None:
        """Wait until there is work."""
        answer = b""
        while not answer and not self.errors:
            answer = await self._send(device, "GET", f"/v1/work?wait_s={_WAIT_S}", (200, 204))
        device.work = json.loads(answer or "{}")

    async def upload(self, device: Device) -> None:
        """Send weights."""
        update = Update(
            round_id=device.work["round_id"],
            device_id=device.device_id,
            features=SETTINGS.digest,
            public_set=device.work["public_set"],
            classes=("c0", "c1", "c2"),
            clips=40,
            label_entropy=1.0,
            metrics={"training_loss": 0.5, "global_accuracy": 80.0, "local_accuracy": 90.0},
        )
        body = pack(self._arrays, asdict(update))
        await self._send(device, "PUT", f"/v1/rounds/{update.round_id}/update", (200,), body)

    async def _send(self, device: Device, method: str, path: str, good: Iterable[int], body: bytes = b"") -> bytes:
        status, answer = await device.connection.request(method, path, body)
        if status not in good:
            self._note(f"{method} {path} was answered with {status}: {answer[:300].decode(errors='replace')}")
        return answer

    def _note(self, trouble: str) -> None:
        self.errors += 1
        self.trouble = self.trouble or trouble
