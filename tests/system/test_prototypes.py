"""Taught on one device, known to all, and taken back: whole devices and a real aggregator."""

import pytest

from edge_client.clips.folders import check_label, rejected
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.invitation_link import InvitationLink
from tests.support.device_fleet import device_fleet, enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips
from tests.support.taught_device import recall_as, scores_of

pytestmark = pytest.mark.slow


def recognised(device, label, slot, bundle="base"):
    """Share of clips of a sound, which no device has, that a device names rightly among all that it can hear."""
    return recall_as(device.device_state().model.load(find_bundle(bundle)), label, slot)


def run_round(server):
    return finished(server, open_round(server, strategy="prototypes", settings={}))


def started(server, *devices):
    """Start devices, which learn in ten epochs, and wait until they are enrolled."""
    for made in devices:
        with made.config.open("a") as config:
            config.write("teach_epochs = 10\n")  # of [training], the last section
        made.start()
    enrolled(server, len(devices))


def test_a_sound_that_one_device_was_taught_is_known_to_all_and_provisional_until_three_were(fleet_of):
    server, device = fleet_of({"base": find_bundle("base")}, own=6)
    devices = [device(f"d{n}", "base", labels) for n, labels in enumerate([("yes", "stop"), ("yes", "no"), ("up",)])]
    other = device("other", "base", ("no", "up"))
    started(server, *devices, other)
    found = run_round(server)
    assert found["aggregation"]["provisional"] == ["c4"]
    assert recognised(other, "stop", "sound-4") > 0.6
    assert recognised(other, "no", "no") > 0.8
    assert "'sound-4' is provisional" in other.command("clips").stdout

    for made in devices[1:]:
        write_clips(made.clips, "stop", 6, seed=40 + devices.index(made))
    found = run_round(server)
    assert found["aggregation"]["devices"]["c4"] == 3
    assert found["aggregation"]["provisional"] == []
    assert recognised(other, "stop", "sound-4") > 0.6
    assert "provisional" not in other.command("clips").stdout
    retire_and_restore(server, devices[0], other, found["summary"]["round_id"])
    assert all("Traceback" not in made.log() for made in (*devices, other))


def score(device, label, sound):
    """The mean score that a device gives a label on clips of a sound that no device has."""
    saved = device.device_state().model.load(find_bundle("base"))
    return float(scores_of(saved, sound)[:, saved.progress.listening_labels.slot_of(label)].mean())


def test_what_one_owner_says_is_not_a_label_every_device_takes_it_less_for_that_until_the_owner_takes_it_back(fleet_of):
    server, device = fleet_of({"base": find_bundle("base")}, labels=("yes", "no", "up"), own=6)
    owner, other = device("owner", "base", ("no", "up")), device("other", "base", ("yes", "up"))
    started(server, owner, other)
    assert "negatives" not in run_round(server)["aggregation"]
    before = score(other, "up", "zip")
    assert before > 0.3

    write_clips(owner.clips, "zip", 3, seed=70, name=rejected("up"))
    assert run_round(server)["aggregation"]["negatives"] == {"up": [1]}
    assert score(other, "up", "zip") < before / 3
    assert recognised(other, "up", "up") > 0.8
    assert recognised(other, "yes", "yes") > 0.8

    for path in (owner.clips / rejected("up")).iterdir():
        path.unlink()
    assert "negatives" not in run_round(server)["aggregation"]
    assert score(other, "up", "zip") > before / 2
    assert all("Traceback" not in made.log() for made in (owner, other))


def retire_and_restore(server, owner, other, last):
    """A class that an operator retires leaves the device that only adopted it; its owner keeps sound and clips."""
    with server.client() as admin:

        def newest_is_learned():
            return admin.get("/v1/rounds").json()[0]["learned"] == 4

        admin.delete("/v1/classes/c4").raise_for_status()
        wait_for(newest_is_learned, what="all devices to follow")
        assert "sound-4" not in other.progress().listening_labels.labels
        labels = owner.progress().label_map
        assert labels.class_ids[labels.slot_of("stop")] == "c4"  # its owner's alone: not reported again
        run_round(server)
        assert len(admin.get("/v1/classes").json()) == 4
        admin.post(f"/v1/rounds/{last}/restore").raise_for_status()
        wait_for(newest_is_learned, what="all devices to follow")
        assert "sound-4" in other.progress().listening_labels.labels
        assert len(admin.get("/v1/classes").json()) == 5
    assert len(list((owner.clips / check_label("stop")).iterdir())) >= 6


def test_a_device_of_another_front_end_learns_its_clips_anew_and_teaches_its_new_fleet(
    fleet_of, start_aggregator, tmp_path
):
    """From a fleet on words to one on words and sounds."""
    new, base = "words_and_sounds", {"base": find_bundle("base")}
    server, device = fleet_of({new: find_bundle(new)}, own=6)
    with device_fleet(tmp_path / "former", base, lambda: start_aggregator("former"), own=6) as (former, of_former):
        one, other = of_former("one", "base", ("yes", "stop")), device("other", new, ("yes", "no"))
        write_clips(tmp_path / "played", "stop", 20, seed=5)
        one.config.write_text(f"{one.config.read_text()}teach_epochs = 10\n[microphone]\n")
        with one.config.open("a") as config:
            config.write(f'file = "{tmp_path / "played"}"\n')
        one.start()
        enrolled(former, 1)
        wait_for(lambda: one.progress().taught, what="the clips to be learned")
        run_round(former)
        one.end()
        clips = sorted(path.name for path in one.clips.rglob("*.wav"))

        with server.client() as client:
            link = str(InvitationLink(server.url, client.post("/v1/invitations", json={}).json()["token"]))
        one.command("leave")
        refused = one.command("join", link, check=False)
        assert (refused.returncode, "[model] bundle" in refused.stderr) == (1, True)
        one.config.write_text(one.config.read_text().replace(str(base["base"]), new))
        one.command("join", link)
        one.start()
        started(server, other)
        enrolled(server, 2)
        wait_for(lambda: "another front end than before" in one.log(), what="the daemon to begin anew")
        wait_for(
            lambda: one.device_state().model.load(find_bundle(new)).progress.taught, what="the clips to be learned anew"
        )
        assert sorted(path.name for path in one.clips.rglob("*.wav")) == clips
        assert run_round(server)["aggregation"]["devices"]["yes"] == 2
        assert recognised(one, "stop", "stop", new) > 0.6
        assert recognised(other, "stop", "sound-4", new) > 0.6
        assert recognised(other, "no", "no", new) > 0.8
        assert all("Traceback" not in made.log() for made in (one, other))
