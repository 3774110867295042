"""A real aggregator in a process of its own on a free port, and devices that speak to it over real sockets."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import numpy as np

from fleet_protocol.bundle.bundle_file import Layer, Manifest, write_bundle
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo, ClassReport, Update
from fleet_protocol.numbers.tensors import pack
from tests.support.forked_server import ForkedServer
from tests.support.state_servers import options_of

ADMIN, ENROL = "admin-token-of-the-tests", "enrolment-token-of-the-tests"
TOKENS = {"AURICLE_ADMIN_TOKEN": ADMIN, "AURICLE_ENROL_TOKEN": ENROL}
SETTINGS = PRESETS["gudur"]
_SEEN: list[tuple[str, str, int, str | None]] = []


class Aggregator:
    """The process; ``start`` again after ``kill`` or ``stop`` goes on with the same data folder."""

    def __init__(self, data: Path, *options: str, tokens: dict[str, str] = TOKENS, **limits: float):
        """Prepare; nothing runs yet.

        Without ``tokens``, environment variables of the first two, the server draws them. It has ``limits`` instead of
        values of aggregator_server/limits.py.
        """
        self.data, self.options, self.tokens, self.limits = data, options, tokens, limits
        self.url = ""
        self.process: ForkedServer | None = None
        self._clients: list[httpx.Client] = []

    def start(self) -> "Aggregator":
        arguments = ["run", "--create", "--port", "0", "--data", str(self.data), *options_of(self.data), *self.options]
        environment = {**os.environ, **self.tokens}
        self.data.mkdir(parents=True, exist_ok=True)
        with (self.data / "server.log").open("a") as log:
            self.process = ForkedServer(arguments, self.limits, environment, log)
        line = self.process.stdout.readline()
        assert line, (self.data / "server.log").read_text()
        self.url = json.loads(line)["url"]
        return self

    def client(self, token: str | None = ADMIN, address: str | None = None, **options) -> httpx.Client:
        """A client; ``address`` is its own, of 127.0.0.0/8, for the server counts failures by address."""
        authority = self.data / "tls" / "authority.pem"
        if self.url.startswith("https://") and authority.exists():
            options.setdefault("verify", ssl.create_default_context(cafile=authority))
        if address is not None:
            options["transport"] = httpx.HTTPTransport(verify=options.get("verify", True), local_address=address)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        hooks = {"response": [_note]}
        return self.keep(
            httpx.Client(base_url=self.url, headers=headers, timeout=180, trust_env=False, event_hooks=hooks, **options)
        )

    def keep(self, client: httpx.Client) -> httpx.Client:
        """Close a client at the end."""
        self._clients.append(client)
        return client

    def enrol(self, *devices: "FakeDevice", token: str = ENROL, **changes) -> None:
        """Enrol devices with what their enrolments say, and ``changes``."""
        with self.client(token) as client:
            for device in devices:
                client.post("/v1/devices", json=device.enrolment(**changes)).raise_for_status()

    def memory_mb(self, kind: str = "VmRSS") -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{kind}:")[1].split()[0]) / 1024

    def peak_memory_mb(self) -> float:
        return self.memory_mb("VmHWM")

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection on which nothing was sent yet, from an address of this machine."""
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=180, source_address=(source, 0))

    def log(self) -> str:
        return (self.data / "server.log").read_text()

    def files(self) -> dict[Path, bytes]:
        """What its data folder holds; it may remove a file between the listing and the reading."""
        found = {}
        for path in self.data.rglob("*"):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                found[path] = path.read_bytes()
        return found

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def __exit__(self, *_) -> None:
        """Close every client, and end the process where it runs."""
        for client in self._clients:
            client.close()
        self.kill()

    def __enter__(self) -> "Aggregator":
        return self

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(number)
        status = self.process.wait(120)
        self.process.stdout.close()
        self.process = None
        return status


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one answer to a request that was sent by hand: (status, headers, body)."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def trickle(connection: socket.socket) -> None:
    """Send a byte now and then, far longer than the server waits."""
    for _ in range(5_000):
        connection.sendall(b"x")
        time.sleep(0.02)


def _note(response: httpx.Response) -> None:
    """Keep what was seen, for the test that compares it with the OpenAPI schema."""
    response.read()
    code = None
    if response.status_code >= 400:
        code = response.json()["error"]["code"]
    _SEEN.append((response.request.method, response.request.url.path, response.status_code, code))


def seen() -> list[tuple[str, str, int, str | None]]:
    return list(_SEEN)


@dataclass
class FakeDevice:
    """What a device sends, without a model behind it; numbers come from its seed."""

    number: int
    classes: tuple[str, ...]
    settings: object = SETTINGS
    reports: tuple[ClassReport, ...] = ()
    known: tuple[str, ...] = ()
    sounds: dict[int, int] = field(default_factory=dict)  # slot -> which sound it really is

    @property
    def device_id(self) -> str:
        return f"{self.number:032x}"

    @property
    def secret(self) -> str:
        return f"secret-of-device-{self.number:020d}"

    def enrolment(self, **changes) -> dict:
        message = {"device_id": self.device_id, "secret": self.secret, "name": f"device {self.number}"}
        message |= {"architecture": "cnn2", "features": self.settings.to_json(), "labels": list(self.classes)}
        return message | changes

    def update(self, work: dict, **changes) -> Update:
        fields = {"round_id": work["round_id"], "public_set": work["public_set"], "device_id": self.device_id}
        fields |= {"features": self.settings.digest, "classes": self.classes, "clips": 40 + self.number}
        fields |= {"reports": self.reports, "known": self.known}
        fields["metrics"] = {"local_accuracy": 0.5 + self.number / 100}
        return Update(**(fields | changes))

    def arrays(self, work: dict, samples: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([self.number, work["round_id"]])
        powers = np.exp(rng.normal(size=(samples, len(self.classes))))
        arrays = {"scores": (powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-9)).astype(np.float32)}
        described = len(self.known) + len(self.reports)
        if described:
            bias = rng.normal(size=SETTINGS.shape)
            kinds = [100 + index for index, _ in enumerate(self.known)]
            kinds += [self.sounds[report.slot] for report in self.reports]
            blocks = [sound_impressions(kind, 4, rng) + bias for kind in kinds]
            arrays["impressions"] = np.stack(blocks).astype(np.float32)
        return arrays

    def upload(self, work: dict, samples: int, **changes) -> bytes:
        update = self.update(work, **changes)
        return pack(self.arrays(work, samples), asdict(update))


def tiny_bundle(capacity: int = 8, settings=SETTINGS, seed: int = 0) -> bytes:
    """A shared model of one layer of three inputs; the aggregator never runs its graph."""
    rng = np.random.default_rng(seed)
    shapes = {"body/kernel": (2, 3), "head/kernel": (3, capacity), "head/bias": (capacity,)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    layers = (Layer("body", ("body/kernel",)), Layer("head", ("head/kernel", "head/bias")))
    manifest = Manifest(
        architecture="tiny",
        options={},
        capacity=capacity,
        batch=1,
        input_shape=settings.shape,
        embedding=3,
        features=settings.to_json(),
        mean=(0.0,),
        std=(1.0,),
        layers=layers,
        weight_shapes=shapes,
        parameters=6 + 4 * capacity,
        seed=seed,
    )
    return write_bundle(manifest, b"", weights)


@dataclass
class SharingDevice(FakeDevice):
    """What a device sends that shares a model of ``tiny_bundle``'s shapes."""

    capacity: int = 8

    def enrolment(self, **changes) -> dict:
        return super().enrolment(**({"architecture": "tiny"} | changes))

    def arrays(self, work: dict, samples: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([self.number, work["round_id"], 1])
        shapes = {"body/kernel": (2, 3), "head/kernel": (3, self.capacity), "head/bias": (self.capacity,)}
        described = {name: array for name, array in super().arrays(work, samples).items() if name != "scores"}
        return described | {
            f"weights/{name}": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()
        }


def sound_impressions(kind: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Impressions of a sound: its own pattern, the same for every device, and some noise."""
    pattern = np.random.default_rng(kind).normal(size=SETTINGS.shape) * 3
    return pattern + rng.normal(size=(count, *SETTINGS.shape)) * 0.3


def public_set(samples: int = 24, classes: int = 4, settings=SETTINGS, seed: int = 0) -> PublicSet:
    rng = np.random.default_rng(seed)
    return PublicSet(
        settings,
        tuple(ClassInfo(f"c{index}", f"word {index}") for index in range(classes)),
        rng.normal(size=(samples, *settings.shape)).astype(np.float32),
        (np.arange(samples) % classes).astype(np.int64),
        np.zeros(samples, np.bool_),
    )


class Fleet:
    """An administrator and some devices at a running aggregator."""

    def __init__(self, aggregator: Aggregator, devices: list[FakeDevice], samples: int = 24):
        self.aggregator, self.devices, self.samples = aggregator, devices, samples
        self.reconnect()

    def reconnect(self) -> None:
        self.admin = self.aggregator.client()
        self.clients = {device.number: self.aggregator.client(device.secret) for device in self.devices}

    def publish(self, **options) -> httpx.Response:
        return self.admin.put("/v1/public-set", content=public_set(self.samples, **options).pack())

    def enrol(self) -> None:
        self.aggregator.enrol(*self.devices)

    def ready(self, model: bytes | None = None) -> "Fleet":
        """Publish a public set, and a model where one is given, and enrol every device."""
        self.publish().raise_for_status()
        if model is not None:
            self.admin.put("/v1/model", content=model).raise_for_status()
        self.enrol()
        return self

    def open_round(self, **request) -> int:
        # Devices without a model ask for work when the test says so, however long that takes.
        plan = {"strategy": "zero_shot", "selection": {"seen_within_s": 0}} | request
        response = self.admin.post("/v1/rounds", json=plan)
        assert response.status_code == 201, response.text
        return response.json()["round_id"]

    def work(self, device: FakeDevice, wait_s: float | None = None) -> dict | None:
        """Return what there is for a device to do; without a time it is waited for, as long as a busy server takes."""
        if wait_s is None:
            return next(filter(None, (self.work(device, 30) for _ in range(10))), None)
        response = self.clients[device.number].get("/v1/work", params={"wait_s": wait_s})
        assert response.status_code in (200, 204), response.text
        return response.json() if response.status_code == 200 else None

    def contribution(self, device: FakeDevice) -> dict:
        """Return the work that a device uploads for; what it has yet to learn from the rounds before comes first."""
        while (work := self.work(device))["kind"] == "learn":
            self.learned(device, work["round_id"]).raise_for_status()
        return work

    def rows(self, work: dict) -> int:
        return len(PublicSet.unpack(self.admin.get(f"/v1/blobs/{work['public_set']}").content).labels)

    def upload(self, device: FakeDevice, work: dict, data: bytes | None = None) -> httpx.Response:
        body = device.upload(work, self.rows(work)) if data is None else data
        return self.clients[device.number].put(f"/v1/rounds/{work['round_id']}/update", content=body)

    def upload_all(self) -> None:
        for device in self.devices:
            self.upload(device, self.work(device)).raise_for_status()

    def learned(self, device: FakeDevice, round_id: int) -> httpx.Response:
        message = {"round_id": round_id, "metrics": {"global_accuracy": 0.75}}
        return self.clients[device.number].post(f"/v1/rounds/{round_id}/learned", json=message)

    def run_round(self, **request) -> dict:
        """Open a round, let every device take part and learn, and return the round."""
        round_id = self.open_round(**request)
        for device in self.devices:
            work = self.work(device)
            assert work["kind"] == "contribute", work
            self.upload(device, work).raise_for_status()
        for device in self.devices:
            work = self.work(device)
            assert (work["kind"], work["round_id"]) == ("learn", round_id), work
            self.learned(device, round_id).raise_for_status()
        return self.round(round_id)

    def round(self, round_id: int) -> dict:
        return self.admin.get(f"/v1/rounds/{round_id}").json()

    def close(self) -> None:
        for client in (self.admin, *self.clients.values()):
            client.close()
