"""A private round with noise, of daemons of which one is killed; and a budget that refuses what would exceed it."""

import signal
from dataclasses import replace

import numpy as np
import pytest

from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.rest import PrivatePlan
from fleet_protocol.secure_sums.bounded_sums import COUNT, STANDS_OUT, BoundedLayout, directions_of
from fleet_protocol.secure_sums.privacy_budget import noise_for
from fleet_protocol.secure_sums.roster import Roster
from fleet_protocol.secure_sums.round_secret import RoundSecret
from tests.support.commands import answer
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.secure_group import plan_of

pytestmark = pytest.mark.slow
DEVICES = 7
LABELS = ("yes", "no", "up", "down")


def stand_out(secrets, roster, uploaded, shape):
    """The labels that stand out of the noise of those who uploaded, by its very numbers: all of them have "yes".

    It is drawn in earnest, and lifts one of the other three above three standard deviations in 1 round of 250.
    """
    plan = replace(plan_of(DEVICES), private=PrivatePlan(DEVICES, noise_for(100.0)))
    layout = BoundedLayout.of(plan, len(LABELS), shape)
    drawn = [layout.noise(roster.fewest, RoundSecret(one, secrets[one]).noise_key(roster)) for one in uploaded]
    counts = layout.read(np.sum(drawn, axis=0, dtype=np.uint32)).counts + len(uploaded) * (np.array(LABELS) == "yes")
    least = STANDS_OUT * layout.deviation_of(len(uploaded), roster.fewest) / COUNT
    return [label for label, count in zip(LABELS, counts, strict=True) if count > least]


def notes_of(devices):
    """What each noted of the round, by its identifier, once all have drawn a secret."""
    states = [device.device_state() for device in devices]
    notes = {state.identity.load().device_id: state.private_rounds.load() for state in states}
    return notes if all(note and note.secret for note in notes.values()) else None


def test_daemons_find_a_word_through_the_noise_and_one_whose_budget_is_spent_sends_nothing_more(fleet_of):
    bundle = find_bundle("base_int8")
    manifest = read_bundle(bundle).manifest
    server, make = fleet_of({"base": bundle}, own=3)
    devices = [make(f"device-{number}", "base", ("yes",)) for number in range(DEVICES)]
    careful, killed, held = devices[:3]
    for device in devices:
        with device.config.open("a") as config:
            config.write("teach_epochs = 5\n" + ("[privacy]\nepsilon = 100\n" if device is careful else ""))
        device.start()
    enrolled(server, DEVICES)
    killed.end(signal.SIGKILL)
    opened = answer("round", "start", "--private", "7", "--epsilon", "100", "--deadline", "600s", "--data", server.data)
    # A secret is gone after the round: no stage ends while the one that is killed, then the one that is held, lacks.
    notes = wait_for(lambda: notes_of([device for device in devices if device is not killed]), what="keys of six")
    held.process.send_signal(signal.SIGSTOP)
    killed.start()
    wait_for(lambda: "answered shares" in killed.log(), what="shares of the device that is killed")
    killed.end(signal.SIGKILL)
    last = notes_of([killed])
    (note,) = last.values()
    roster = Roster(bytes.fromhex(note.context), note.members)
    held.process.send_signal(signal.SIGCONT)
    killed.start()
    found = finished(server, opened["round_id"])
    assert found["summary"]["state"] == "done", found["summary"]["reason"]
    assert found["private"]["epsilon"] == pytest.approx(100)

    settings, statistics = manifest.feature_settings, manifest.embedding_statistics
    means = []
    for device in devices:
        clips = Recordings(device.clips, settings)
        means.append(open_front_end(settings)(clips.load(clips.clips("yes")))[:, 0].mean(axis=0))
    plain = directions_of(statistics, np.stack(means)).sum(axis=0)
    sent = careful.device_state().blobs.prototypes(settings)
    secrets = {one: bytes.fromhex(note.secret) for one, note in (notes | last).items()}
    named = [one["device_id"] for one in found["participants"] if one["upload"] is not None]
    with server.client() as client:
        label_of = {one["class_id"]: one["name"] for one in client.get("/v1/classes").json()}
    heard = [label_of[class_id] for class_id in sent.class_ids]
    assert heard == stand_out(secrets, roster, named, settings.shape)
    yes = directions_of(statistics, sent.means[heard.index("yes")])[0]
    assert yes @ plain / np.linalg.norm(plain) > 0.6
    uploaded = [one["upload"] is not None for one in found["participants"]]
    told = [device.device_state().privacy.load() for device in devices]
    assert sorted(one.noisy for one in told) == sorted(map(int, uploaded))  # once each, also by who was killed
    assert sum(uploaded) >= DEVICES - 1
    assert not any(one.open for one in told)
    privacy = wait_for(lambda: careful.status()["privacy"], what="what was told in its status")
    assert privacy["words"].startswith(
        "so far the fleet's rounds can have told epsilon 100 of at most 100, at delta 1e-05"
    )

    second = open_round(server, strategy="prototypes", settings={}, private={"groups": 6, "epsilon": 100})
    wait_for(lambda: "and its owner allows 100" in careful.log(), what="its refusal")
    with server.client() as client:
        client.delete(f"/v1/rounds/{second}").raise_for_status()
    open_round(server, strategy="prototypes", settings={})
    wait_for(lambda: "is not private: the device sends nothing" in careful.log(), what="its refusal of an open round")
    assert careful.device_state().privacy.load().noisy == 1
    assert all("Traceback" not in device.log() for device in devices)
