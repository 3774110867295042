"""A fleet that calls the aggregator's core without HTTP, as the simulator does; time is what the test says."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import pytest

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.enrolment import enrol
from aggregator_server.rounds.devices.uploads import check_update, note_update
from aggregator_server.rounds.devices.work import acknowledge, next_work
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.opening import open_round
from aggregator_server.rounds.publishing import publish_model, publish_public_set
from aggregator_server.rounds.queries import read_waiting
from aggregator_server.rounds.result import KINDS, StoredResult
from aggregator_server.rounds.retention import remove_left_uploads
from aggregator_server.schemas import ModelInfo, RoundRequest
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.opening import open_store
from aggregator_server.store.store import Store
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassReport, Enrolment, Learned, Receipt, Work
from tests.support.aggregator_process import FakeDevice, public_set, tiny_bundle
from tests.support.state_servers import located

SAMPLES = 24


def devices(count: int = 4, kind: type[FakeDevice] = FakeDevice) -> list[FakeDevice]:
    """Devices with overlapping classes; the first two report sound 7, the third sound 8."""
    fleet = [kind(n, (f"c{n % 4}", f"c{(n + 1) % 4}")) for n in range(1, count + 1)]
    for index, (sound, name) in enumerate([(7, "stop"), (7, "Stop"), (8, "go")][:count]):
        report = ClassReport(2, name, 9)
        fleet[index] = dataclasses.replace(
            fleet[index], reports=(report,), known=fleet[index].classes, sounds={2: sound}
        )
    return fleet


def quiet(members: Iterable[FakeDevice]) -> list[FakeDevice]:
    """The same devices, which report nothing new."""
    return [dataclasses.replace(device, reports=(), known=()) for device in members]


def refusal(code: str, match: str | None = None) -> pytest.RaisesExc[RefusedError]:
    """Expect a refusal with a code."""
    return pytest.raises(RefusedError, match=match, check=lambda error: error.code == code)


def accept(store: Store, round_id: int, device_id: str, incoming: Incoming, now: float) -> Receipt:
    """Check an upload, put it on the disk and note it, as the route does."""
    update = check_update(store, round_id, device_id, incoming, now)
    if update is None:
        return Receipt(round_id, incoming.sha256, repeated=True)
    return note_update(store, update, incoming.keep(), now)


class CoreFleet:
    def __init__(self, folder: Path, fleet: list[FakeDevice] | None = None, public: PublicSet | None = None):
        self.store = open_store(located(folder))
        self.devices = devices() if fleet is None else fleet
        with self.store.blobs.receive() as incoming:
            incoming.write((public or public_set(SAMPLES)).pack())
            self.public_set = publish_public_set(self.store, incoming)
        for device in self.devices:
            self.enrol(device)

    def enrol(self, device: FakeDevice) -> None:
        message = device.enrolment()
        enrol(self.store, Enrolment(**(message | {"labels": tuple(message["labels"])})), now=0.0)

    def publish_model(self, data: bytes | None = None) -> ModelInfo:
        with self.store.blobs.receive() as incoming:
            incoming.write(tiny_bundle() if data is None else data)
            return publish_model(self.store, incoming)

    def open(self, now: float = 100.0, strategy: str = "zero_shot", *, all_there: bool = True, **request) -> int:
        """Open a round; every device was heard of just now, unless they are not ``all_there``."""
        for device in self.devices if all_there else ():
            self.store.note_seen(device.device_id, now)
        return open_round(self.store, RoundRequest(strategy, **request), now)

    def work(self, device: FakeDevice, now: float = 101.0) -> Work | None:
        return next_work(self.store, device.device_id, now)

    def body(self, device: FakeDevice, work: Work) -> bytes:
        rows = len(PublicSet.unpack(self.store.blobs.read(work.public_set)).labels)
        return device.upload(dataclasses.asdict(work), rows)

    def upload(self, device: FakeDevice, now: float = 102.0, data: bytes | None = None) -> Receipt:
        work = self.work(device, now)
        return self.send(device, work.round_id, self.body(device, work) if data is None else data, now)

    def send(self, device: FakeDevice, round_id: int, data: bytes, now: float = 102.0) -> Receipt:
        with self.store.blobs.receive() as incoming:
            incoming.write(data)
            return accept(self.store, round_id, device.device_id, incoming, now)

    def advance(self, now: float = 103.0) -> int | None:
        return advance(self.store, now)

    def deadline(self) -> float | None:
        with self.store.reading() as session:
            return read_waiting(session, 0.0)[1]

    def learned(self, device: FakeDevice, round_id: int) -> None:
        acknowledge(self.store, device.device_id, Learned(round_id, {"global_accuracy": 0.9}, personalised=True))

    def upload_all(self, now: float = 102.0) -> None:
        for device in self.devices:
            self.upload(device, now)

    def all_learned(self, round_id: int) -> None:
        for device in self.devices:
            self.learned(device, round_id)

    def run_round(self, now: float = 100.0, learn: bool = True, **request) -> int:
        round_id = self.open(now, **request)
        self.upload_all(now + 1)
        assert self.advance(now + 2) == round_id
        if learn:
            self.all_learned(round_id)
        return round_id


def between_rounds(folder: Path, uploads: int) -> CoreFleet:
    """A closed data folder with a round that is done, and one in which some of four devices uploaded."""
    fleet = CoreFleet(folder)
    fleet.run_round()
    remove_left_uploads(fleet.store)
    fleet.open(200.0)
    for device in fleet.devices[:uploads]:
        fleet.upload(device, 201.0)
    fleet.store.close()
    return fleet


def blobs_of(stored: StoredResult) -> tuple[str | None, ...]:
    return tuple(map(stored.blobs.get, KINDS))
