"""A real server's core and real devices' training, in one process and in rounds of `prototypes`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from aggregator_server.fleet.enrolment import enrol
from aggregator_server.rounds.devices.uploads import check_update, note_update
from aggregator_server.rounds.devices.work import acknowledge, next_work
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.opening import open_round
from aggregator_server.rounds.publishing import publish_public_set
from aggregator_server.schemas import RoundRequest
from aggregator_server.store.opening import open_store
from aggregator_server.store.store import Store
from benchmarks.liars.corpus import BUNDLE, OWNERS, PUBLIC, Corpus, link
from edge_client.config import load_config
from edge_client.learning.worker import run
from edge_client.storage.checked_files import read_checked, write_checked
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.messages.rest import Enrolment, Learned, Work
from fleet_protocol.numbers.tensors import pack, unpack

DEVICES, ROUNDS = 10, 2
LEARNERS = (2, 6)
"""Devices that learn from rounds and are judged; the others contribute alone."""

_BEGINS = {"left": 0, "right": 0, "go": 1}  # rounds before which owners teach words
_CONFIG = """[device]
state = "state"
name = "{name}"
[model]
bundle = "{bundle}"
[recordings]
folder = "clips"
[training]
teach_epochs = 10
[server]
url = "http://127.0.0.1:1"
"""


class Device:
    """A device in a folder; ``cache`` is a file that keeps embeddings for all of them."""

    def __init__(self, folder: Path, number: int, server: Store, cache: Path) -> None:
        """Enrol it."""
        self.number, self.id, self._clips, self._cache = number, f"{number + 1:032x}", folder / "clips", cache
        folder.mkdir()
        (folder / "edge.toml").write_text(_CONFIG.format(name=folder.name, bundle=BUNDLE))
        self.config = load_config(folder / "edge.toml")
        self.state = DeviceState(self.config.device.state)
        self.state.identity.save(dataclasses.replace(self.state.identity.load(), device_id=self.id))
        features = read_bundle(BUNDLE).manifest.feature_settings.to_json()
        secret, name = f"{number:032d}", folder.name
        asked = Enrolment(device_id=self.id, secret=secret, name=name, architecture="mlp", features=features)
        enrol(server, asked, now=0.0)

    def teach(self, takes: dict[str, list[Path]]) -> None:
        """Give the device takes by label."""
        for label, paths in takes.items():
            link(paths, self._clips / label)

    def label(self, slot: int) -> str:
        """Return the label of a slot."""
        return self.state.model.load(self.config.bundle).progress.label_map.names[slot]

    def work(self, server: Store, work: Work) -> bytes:
        """Do what the server asks for; return the file in the outbox."""
        self.state.blobs.folder.mkdir(exist_ok=True)
        for sha256 in filter(None, (work.public_set, work.prototypes)):
            self.state.blobs.path(sha256).write_bytes(bytes(server.blobs.read(sha256)))
        kept, _ = unpack(read_checked(self._cache)) if self._cache.exists() else ({}, {})
        if kept:
            write_checked(self.state.embeddings_path, read_checked(self._cache))
        run(self.config, work)
        used, document = unpack(read_checked(self.state.embeddings_path))
        if used.keys() - kept.keys():
            write_checked(self._cache, pack(kept | used, document))
        outbox = self.state.outbox
        path = outbox.update_path if work.kind == "contribute" else outbox.learned_path
        data = outbox.read(path(work.round_id))
        assert data is not None
        return data


class Fleet:
    """Ten devices and their server; ``words``: by class, the label of who sent it first."""

    def __init__(self, folder: Path, cache: Path, public_set: bytes) -> None:
        """Enrol the devices, and publish the public set."""
        self._server, self.words = open_store(folder / "server"), dict[str, str]()
        with self._server.blobs.receive() as incoming:
            incoming.write(public_set)
            publish_public_set(self._server, incoming)
        self.devices = [Device(folder / f"d{number}", number, self._server, cache) for number in range(DEVICES)]

    def play(self, corpus: Corpus, way: str, liars: int, seed: int) -> None:
        """Play all rounds; the last devices lie."""
        for now in range(ROUNDS):
            for number, device in enumerate(self.devices):
                said = {word for word, owners in OWNERS.items() if number in owners and _BEGINS[word] == now}
                said |= set() if now else {PUBLIC[number % 4], PUBLIC[(number + 1) % 4]}
                device.teach({word: corpus.takes(word, seed, number) for word in sorted(said)})
                if number >= DEVICES - liars:
                    device.teach(corpus.lies(way, now, seed, number))
            self._run_round(1000.0 * (now + 1))
        self._server.close()

    def _run_round(self, now: float) -> None:
        everybody: dict[str, Any] = {"quorum": 1.0, "selection": {"seen_within_s": 0}}
        round_id = open_round(self._server, RoundRequest(strategy="prototypes", **everybody), now)
        for device in self.devices:
            with self._server.blobs.receive() as incoming:
                incoming.write(device.work(self._server, self._work(device, now)))
                update = check_update(self._server, round_id, device.id, incoming, now)
                assert update is not None
                note_update(self._server, update, incoming.keep(), now)
        advance(self._server, now)
        for device in self.devices:
            work, learned = self._work(device, now), Learned(round_id)
            for one in work.assignments:
                self.words.setdefault(one.class_id, device.label(one.slot))
            if device.number in LEARNERS:
                refused = json.loads(device.work(self._server, work))["refused"]
                learned = dataclasses.replace(learned, refused=refused)
            acknowledge(self._server, device.id, learned)

    def _work(self, device: Device, now: float) -> Work:
        work = next_work(self._server, device.id, now)
        assert work is not None
        return work
