"""Many reports in a round: the sounds that they are, within bounds on time and memory."""

import dataclasses
import time
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from aggregator_server.discovery import new_sounds
from aggregator_server.discovery.clustering import COMPARED, KnownClass, ReportedClass, discover
from tests.support.aggregator_process import public_set
from tests.support.embedded_words import CENTRES, SETTINGS, embedded_public_set
from tests.support.prototype_rounds import upload

NUMBERS = SETTINGS.shape[1]
PUBLIC = public_set(samples=64, classes=4, settings=SETTINGS)


def reported(devices, sounds, seed, noise=0.1):
    """Two sounds of each device, of so many; and descriptions of four known classes."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(sounds + 4, 1, NUMBERS))
    near = lambda sound: (centres[sound] + noise * rng.normal(size=(1, NUMBERS))).astype(np.float32)  # noqa: E731
    truth = [int(sound) for _ in range(devices) for sound in rng.permutation(sounds)[:2]]
    reports = [
        ReportedClass(f"device-{index // 2:05d}", index % 2, None, prototype=near(sound))
        for index, sound in enumerate(truth)
    ]
    known = [KnownClass(f"device-{n:05d}", f"c{n % 4}", prototype=near(sounds + n % 4)) for n in range(80)]
    return reports, known, truth


def labels_of(found, count):
    labels = np.full(count, -1)
    for number, group in enumerate(found.groups):
        labels[list(group.members)] = number
    return labels


def test_as_many_reports_as_are_compared_become_the_sounds_that_they_are_and_a_rare_one_is_found():
    reports, known, truth = reported((COMPARED - 6) // 2, 12, seed=4)
    rare = (np.full((1, NUMBERS), 5) * np.where(np.arange(NUMBERS) % 2, 1, -1)).astype(np.float32)
    for number in range(6):
        reports.append(ReportedClass(f"late-{number:02d}", 0, None, prototype=rare + np.float32(0.01 * number)))
        truth.append(12)
    before = time.process_time()
    found = discover(reports, known, PUBLIC, count=None, seed=0)
    assert time.process_time() - before < 30
    labels = labels_of(found, len(reports))
    assert adjusted_rand_score(truth, labels) > 0.95
    assert (labels[-6:] == labels[-1]).all()
    for group in found.groups:
        devices = [reports[index].device_id for index in group.members]
        assert len(set(devices)) == len(devices), "two sounds of one device differ"


def test_what_is_beyond_those_that_are_compared_is_reported_again_and_what_the_fleet_knows_is_not_compared(monkeypatch):
    monkeypatch.setattr(new_sounds, "COMPARED", 12)
    rng = np.random.default_rng(0)
    public, known, new = embedded_public_set(rng), CENTRES["up"][None], CENTRES["go"][None]
    reports = [
        ReportedClass(f"device-{n:02d}", slot, None, prototype=(known if slot else new).astype(np.float32))
        for n in range(20)
        for slot in (0, 1)
    ]
    inputs = SimpleNamespace(
        public_set=public, assigned={}, new_classes=None, prototypes=None, plan=SimpleNamespace(seed=0)
    )
    found = new_sounds._grouped(inputs, reports, [])
    assert [(group.class_id, len(group.members)) for group in found.groups] == [("c2", 20), (None, 12)]
    assert found.details["compared"] == list(found.groups[1].members)


@pytest.mark.parametrize(("bound", "value"), [("REPORTS_PER_ROUND", 8), ("DESCRIPTION_BYTES", 4 * 4 * NUMBERS)])
def test_beyond_a_number_of_reports_or_of_bytes_the_others_wait_and_every_device_has_its_turn(
    bound, value, monkeypatch
):
    monkeypatch.setattr(new_sounds, "REPORTS_WHATEVER_BYTES", 4)
    monkeypatch.setattr(new_sounds, bound, value)
    contributions = tuple(upload(number, ("c0",), {0: "stop", 1: "go"}) for number in range(6))
    sounds = [
        new_sounds._Sound(item, row, ReportedClass(item.update.device_id, row - 1, None))
        for item in contributions
        for row in (1, 2)
    ]
    chosen = new_sounds._within_bounds(sounds)
    assert len(chosen) == 8
    assert {sounds[index].report.device_id for index in chosen} == {item.update.device_id for item in contributions}
    reports, known = new_sounds._read(sounds, chosen)
    assert [index for index, report in enumerate(reports) if report.prototype is not None] == chosen
    assert len(known) == 6
    np.testing.assert_array_equal(reports[1].prototype, contributions[0].read()["prototypes"][2])
    assert dataclasses.replace(reports[1], prototype=None) == sounds[1].report
