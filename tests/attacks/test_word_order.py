"""Phrases in a fleet of devices of two releases, with a liar, on a real server that restarts."""

from dataclasses import asdict, dataclass

import numpy as np
import pytest

from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import pack
from fleet_protocol.numbers.word_order import WordOrder
from tests.support.aggregator_process import Fleet
from tests.support.embedded_words import CENTRES, NUMBERS, PrototypeDevice, clips, embedded_public_set

pytestmark = pytest.mark.slow


@dataclass
class Member(PrototypeDevice):
    """A device with one class, before whose end it heard words, the newest first; None: of a release without order."""

    before: tuple[str, ...] | None = ("no", "up")

    def arrays(self, work, samples):
        arrays = super().arrays(work, samples)
        if self.before is None:
            return arrays
        assert work["plan"]["aggregation"]["settings"]["order"] is True
        rows = np.array([clips(word, 6, np.random.default_rng(self.number))[0] for word in self.before])
        words = [(rows.reshape(-1, 1, NUMBERS), 1.3)] * len(self.classes)
        return arrays | WordOrder.of(words, (1, NUMBERS)).arrays


def told(fleet, work):
    """What the fleet tells its devices to come before the end of class c0."""
    found = FleetPrototypes.unpack(fleet.admin.get(f"/v1/blobs/{work['prototypes']}").content)
    rows, length_s = found.order.word(found.class_ids.index("c0"))
    names = list(CENTRES)
    apart = np.linalg.norm(rows[:, 0, None] - np.array([CENTRES[name] for name in names]), axis=2)
    return [names[place] for place in apart.argmin(axis=1)], round(length_s, 3)


def run_round(fleet):
    """A round in which every device uploads and learns; return what they are told."""
    round_id = fleet.open_round(strategy="prototypes")
    for device in fleet.devices:
        fleet.upload(device, fleet.contribution(device)).raise_for_status()
    works = [fleet.work(device) for device in fleet.devices]
    for device in fleet.devices:
        fleet.learned(device, round_id).raise_for_status()
    return told(fleet, works[0])


ABSURD = [
    {"before": np.full((2, 1, NUMBERS), 1e30, np.float32)},
    {"before": np.full((2, 1, NUMBERS), np.nan, np.float32)},
    {"before": np.zeros((100_000, 1, NUMBERS), np.float32), "before_states": np.array([1e5], np.float32)},
    {"before": np.zeros((2, 7, NUMBERS), np.float32)},
    {"before_states": np.array([-2], np.float32)},
    {"before_lengths": np.array([3600], np.float32)},
]


def test_a_phrase_gets_and_keeps_its_order_in_a_fleet_of_two_releases_whatever_one_device_sends(start_aggregator):
    *honest, old, liar = (Member(number, ("c0",), before=None) for number in range(1, 6))
    server = start_aggregator("server")
    fleet = Fleet(server, [*honest, old, liar], samples=120)
    fleet.admin.put("/v1/public-set", content=embedded_public_set(np.random.default_rng(2)).pack()).raise_for_status()
    fleet.enrol()
    assert run_round(fleet)[0] == []  # all are of the release before, and so is what the server keeps of them
    assert server.stop() == 0
    server.start()
    fleet.reconnect()
    honest[0].before = honest[1].before = ("no", "up")
    assert run_round(fleet)[0] == []  # two of five sent it
    honest[2].before = ("no", "up", "down")
    liar.before = ("go",) * 5
    assert run_round(fleet) == (["no", "up"], 1.3)

    fleet.open_round(strategy="prototypes")
    work = fleet.contribution(liar)
    update, good = asdict(liar.update(work)), liar.arrays(work, 120)
    for changed in ABSURD:
        refused = fleet.upload(liar, work, pack(good | changed, update))
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "malformed_update")
        assert "before" in refused.json()["error"]["message"]
    assert server.stop() == 0
    server.start()
    fleet.reconnect()
    for device in fleet.devices:
        fleet.upload(device, fleet.contribution(device)).raise_for_status()
    assert told(fleet, fleet.work(old)) == (["no", "up"], 1.3)
