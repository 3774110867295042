"""A data folder with a small made-up fleet, for the dashboard's tests. No figure in it is measured."""

import dataclasses
import time
from pathlib import Path

import numpy as np

from aggregator_server.fleet.audit import Actor
from aggregator_server.fleet.classes import rename_class
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.fleet.enrolment import Entry, enrol
from aggregator_server.fleet.tokens import invite
from aggregator_server.rounds.devices.work import acknowledge
from aggregator_server.schemas import InvitationRequest
from fleet_protocol.ground.command_line import version
from fleet_protocol.messages.rest import ClassInfo, ClassReport, Enrolment, Learned, Versions
from tests.support.aggregator_process import FakeDevice, public_set
from tests.support.core_fleet import CoreFleet, quiet

ANNA = Actor("Anna (token 1)", "192.0.2.7")
WORDS = ("yes", "no", "stop", "go")
HOMES = ("kitchen", "hallway", "workshop", "nursery", "garden shed", "living room")
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>" + 120 * "w"
_SOUNDS = {7: "kettle", 8: "doorbell", 9: "glass breaking"}
_HEARD = {device: (sound, _SOUNDS[sound]) for device, sound in enumerate((7, 7, 8, 8, 9, 7), 1)}
_OWN = (61.0, 66.5, 70.0, 72.5, 74.0, 77.5, 78.0)
_CURRENT = Versions(
    program=version(),
    bundle="base",
    bundle_sha256="3f" * 32,
    runtime="tflite-runtime 2.14.0",
    python="3.11.2",
    system="Debian GNU/Linux 12 (bookworm), armv7l",
)
_OUTDATED = dataclasses.replace(_CURRENT, program="0.0.9")
_ROUNDS, _ROUND_S = 5, 86_400.0


def fleet_folder(folder: Path) -> None:
    """Make a closed data folder: rounds that are done, one that is open, a device that waits, one in quarantine."""
    now = time.time()
    fleet = CoreFleet(folder, [], public=_words())
    fleet.devices = [device_of(number) for number in range(1, len(HOMES) + 1)]
    for device, name in zip(fleet.devices, HOMES, strict=True):
        _enrol(fleet, device, name, now - 10 * _ROUND_S, ANNA)
    for number in range(_ROUNDS):
        _run(fleet, number, now - (_ROUNDS - number) * _ROUND_S)
    reason = "3 of its uploads stood out, 0 were refused, 2 counted"
    change_devices(fleet.store, [fleet.devices[-1].device_id], "quarantine", now, reason=reason)
    _open(fleet, now)
    _enrol(fleet, device_of(90), HOSTILE, now - 400.0, Actor("invitation 2", "192.0.2.33"), waiting=True)
    invite(fleet.store, InvitationRequest(devices=5, group="school"), ANNA, now - 3_600.0)
    fleet.store.note_seen(fleet.devices[3].device_id, now - 9 * 3_600.0)
    fleet.store.write_seen()
    fleet.store.close()


def _words():
    found = public_set(samples=40)
    classes = tuple(ClassInfo(info.class_id, word) for info, word in zip(found.classes, WORDS, strict=True))
    return dataclasses.replace(found, classes=classes)


def device_of(number: int) -> FakeDevice:
    """Return one of the fleet's devices; that of the sixth home is in quarantine."""
    return FakeDevice(number, (f"c{number % 4}", f"c{(number + 1) % 4}"))


def _enrol(fleet: CoreFleet, device: FakeDevice, name: str, now: float, by: Actor, waiting: bool = False) -> None:
    labels = (*(WORDS[int(class_id[1:])] for class_id in device.classes), _HEARD.get(device.number, (0, "door"))[1])
    versions = _OUTDATED if device.number == 3 else _CURRENT
    fields = device.enrolment(name=name, labels=labels, clips=20 + 7 * (device.number % 9), versions=versions)
    enrol(fleet.store, Enrolment(**fields), now, Entry(by=by, approve=waiting))


def _run(fleet: CoreFleet, number: int, now: float) -> None:
    """Run a round; in the second one devices report new sounds."""
    if number == 1:
        for index, device in enumerate(fleet.devices):
            sound, name = _HEARD.get(device.number, (None, None))
            if sound is not None:
                report = ClassReport(2, name, 9)
                fleet.devices[index] = dataclasses.replace(
                    device, reports=(report,), known=device.classes, sounds={2: sound}
                )
    round_id = fleet.open(now)
    for place, device in enumerate(fleet.devices):
        fleet.upload(device, now + 60.0 + 25.0 * place)
    assert fleet.advance(now + 240.0) == round_id
    if number == 1:
        fleet.devices = quiet(fleet.devices)
    rng = np.random.default_rng(number)
    for device in fleet.devices:
        after = _OWN[number % len(_OWN)] + rng.normal() * 4
        metrics = {"held_out_before": after - 3, "held_out_after": after}
        metrics |= {"public_before": 70.0, "public_after": after + 8}
        if not number:  # a round whose devices measured on other recordings
            metrics = {"held_out_after": after, "distilled_accuracy": 99.0}
        kept_own = bool(rng.random() < 0.1)
        acknowledge(fleet.store, device.device_id, Learned(round_id, metrics, personalised=True, kept_own=kept_own))
    if number == 2:
        rename_class(fleet.store, "c0", "yes please", ANNA)


def _open(fleet: CoreFleet, now: float) -> None:
    """Open a round in which half of the devices are in, and the others are late."""
    fleet.open(now - 420.0, deadline_s=3_600.0)
    for place, device in enumerate(fleet.devices[:3]):
        fleet.upload(device, now - 360.0 + 20.0 * place)
    for device in fleet.devices[:3]:
        fleet.store.note_seen(device.device_id, now - 20.0)
