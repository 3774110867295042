"""One liar in a fleet: what its server and the others make of the classes that it sends. Real servers, fake devices."""

from dataclasses import dataclass

import numpy as np
import pytest

from fleet_protocol.messages.rest import ClassReport
from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.edge_process import wait_for
from tests.support.embedded_words import CENTRES, NUMBERS, SPREAD, PrototypeDevice, embedded_public_set

GO, STOP = 7, 100
BROAD = -1


def centre(sound):
    if sound == BROAD:
        return np.mean([CENTRES[word] for word in ("yes", "no", "up", "down")], axis=0)
    return 4 * np.random.default_rng(1000 + sound).normal(size=NUMBERS)


@dataclass
class Member(PrototypeDevice):
    """A device with sounds of its own, by slot, and votes for classes with a sound, by class."""

    votes: tuple[tuple[str, int], ...] = ()

    def update(self, work, **changes):
        known = (*self.classes, *(class_id for class_id, _ in self.votes))
        return FakeDevice.update(self, work, classes=known, **(changes | {"known": known}))

    def arrays(self, work, samples):
        rng = np.random.default_rng([self.number, 3])
        words = [CENTRES[("yes", "no", "up", "down")[int(one[1:])]] for one in self.classes]
        words += [centre(sound) for _, sound in self.votes]
        words += [centre(self.sounds[report.slot]) for report in self.reports]
        means = [word + (rng.normal(size=(6, NUMBERS)) @ SPREAD).mean(axis=0) for word in words]
        return {"prototypes": np.asarray(means, np.float32)[:, None], "counts": np.full(len(words), 6, np.float32)}


def member(number, *sounds, votes=(), name=None, first=4):
    reports = tuple(ClassReport(slot, name, 6) for slot, _ in enumerate(sounds, first))
    found = dict(enumerate(sounds, first))
    return Member(number, ("c0", "c1"), reports=reports, sounds=found, votes=tuple(votes))


@pytest.fixture
def fleet_with(start_aggregator):
    def made(*members, options=()):
        fleet = Fleet(start_aggregator("server", *options), list(members), samples=120)
        public = embedded_public_set(np.random.default_rng(2)).pack()
        fleet.admin.put("/v1/public-set", content=public).raise_for_status()
        fleet.enrol()
        return fleet

    return made


def run_round(fleet, refused=()):
    """A round that all take part in, and learn from; return the work of learning."""
    round_id = fleet.open_round(strategy="prototypes")
    for device in fleet.devices:
        fleet.upload(device, fleet.contribution(device)).raise_for_status()
    works = {}
    for device in fleet.devices:
        works[device.number] = fleet.work(device)
        message = {"round_id": round_id, "metrics": {}}
        message |= {"refused": refused[device.number]} if device.number in refused else {}
        fleet.clients[device.number].post(f"/v1/rounds/{round_id}/learned", json=message).raise_for_status()
    return works[fleet.devices[0].number], fleet.round(round_id)


def standing(work):
    return {one["class_id"]: (one["devices"], one["approved"], one["quarantined"]) for one in work["backing"]}


def test_devices_hear_with_each_class_how_many_others_sent_it_and_whether_an_operator_approved_it(fleet_with):
    fleet = fleet_with(member(1), member(2, GO), member(3, GO))
    assert standing(run_round(fleet)[0]) == {"c4": (2, False, False)}
    fleet.devices[1] = member(2, GO, STOP)
    work, _ = run_round(fleet)
    assert work["devices_needed"] == 2
    assert sorted(standing(work).values()) == [(1, False, False), (2, False, False)]
    alone = next(class_id for class_id, (devices, *_) in standing(work).items() if devices == 1)
    approved = fleet.admin.patch(f"/v1/classes/{alone}", json={"approve": True}).json()
    assert (approved["approved"], approved["sent_by"]) == (True, 1)
    work, _ = run_round(fleet)
    assert standing(work)[alone] == (1, True, False)
    assert fleet.admin.patch("/v1/classes/c0", json={"approve": True}).status_code == 422
    assert fleet.admin.get("/v1/audit").json()[1]["what"] in ("class_approved", "round_opened")


def test_a_household_chooses_that_one_device_is_enough(fleet_with):
    fleet = fleet_with(member(1), member(2, GO), options=("--devices-needed", "1"))
    assert run_round(fleet)[0]["devices_needed"] == 1


def test_who_votes_for_a_class_with_another_sound_neither_counts_nor_moves_it(fleet_with):
    fleet = fleet_with(member(1), member(2, GO), member(3))
    run_round(fleet)
    fleet.devices[2] = member(3, votes=[("c4", STOP)])
    work, found = run_round(fleet)
    assert standing(work) == {"c4": (1, False, False)}
    assert found["aggregation"]["distances"]["c4"][fleet.devices[1].device_id] < 1
    fleet.devices[0] = member(1, votes=[("c4", GO)])
    assert standing(run_round(fleet)[0]) == {"c4": (2, False, False)}


def test_one_device_brings_four_classes_in_a_round_and_eight_in_all_and_its_revocation_takes_them_back(fleet_with):
    many = [100 + sound for sound in range(14)]
    fleet = fleet_with(member(1, GO), member(2, GO, *many), member(3))
    counts = []
    for _ in range(3):
        _, found = run_round(fleet)
        counts.append(len(fleet.admin.get("/v1/classes").json()) - 4)
    assert counts == [5, 9, 9]  # one of them two devices sent
    assert any("no more than 4 in a round and 8 in all" in line for line in found["discovery"]["limits"])

    before = fleet.admin.get("/v1/rounds").json()[0]["round_id"]
    fleet.admin.delete(f"/v1/devices/{fleet.devices[1].device_id}").raise_for_status()

    def classes():
        return len(fleet.admin.get("/v1/classes").json())

    wait_for(lambda: classes() == 5, what="the liar's classes to go")
    newest = fleet.admin.get("/v1/rounds").json()[0]
    assert (newest["operation"], len(fleet.round(newest["round_id"])["operation"]["class_ids"])) == ("retire", 8)
    fleet.admin.post(f"/v1/rounds/{before}/restore").raise_for_status()
    fleet.devices.pop(1)
    work, _ = run_round(fleet)
    assert classes() == 13  # what an operator brought back stays, and no device counts for it
    assert sorted(devices for devices, *_ in standing(work).values()) == [0] * 8 + [1]


def test_a_class_that_most_refuse_waits_for_the_operator_and_one_liar_s_refusal_does_not_matter(fleet_with):
    fleet = fleet_with(member(1), member(2, GO), member(3, GO), member(4), member(5))
    run_round(fleet, {1: {"c4": "false_alarms"}})
    assert standing(run_round(fleet, {1: {"c4": "false_alarms"}})[0])["c4"] == (2, False, False)
    no = {"c4": "own_sounds"}
    run_round(fleet, {1: no, 4: no, 5: no})
    assert standing(run_round(fleet, {1: no, 4: no, 5: no})[0])["c4"] == (2, False, True)
    shown = next(one for one in fleet.admin.get("/v1/class-history").json() if one["class_id"] == "c4")
    assert (shown["quarantined"], shown["refused"]) == (True, {"own_sounds": 3})
    fleet.admin.patch("/v1/classes/c4", json={"approve": True}).raise_for_status()
    assert standing(run_round(fleet)[0])["c4"] == (2, True, False)
    odd = fleet.clients[1].post("/v1/rounds/1/learned", json={"round_id": 1, "refused": {"c4": "<script>"}})
    assert odd.status_code == 422


def test_a_prototype_of_many_sounds_becomes_no_class(fleet_with):
    fleet = fleet_with(member(1), member(2, GO), member(3, BROAD))
    _, found = run_round(fleet)
    assert [info["class_id"] for info in fleet.admin.get("/v1/classes").json()] == ["c0", "c1", "c2", "c3", "c4"]
    assert any("like many sounds" in line for line in found["discovery"]["limits"])
