"""A fleet moves to another front end by one command, and back: whole devices, a real aggregator, and an operator."""

import json
import signal

import pytest

from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from tests.support.checkout import ROOT
from tests.support.commands import command
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips
from tests.system.test_prototypes import recognised

pytestmark = pytest.mark.slow

NEW = "words_and_sounds"


def add_to(device, lines, section="[training]"):
    path = device.folder / "edge.toml"
    path.write_text(path.read_text().replace(f"{section}\n", f"{section}\n{lines}\n", 1))


def run_round(server):
    return finished(server, open_round(server, strategy="prototypes", settings={}))


def devices_of(server):
    with server.client() as client:
        return {device["name"]: device for device in client.get("/v1/devices").json()}


def documented(server, recordings):
    """The commands of the section of docs/operating.md, for a server and its recordings: move, list, move back."""
    _, section = (ROOT / "docs" / "operating.md").read_text().split("## Move a fleet to another front end\n")
    lines = [
        line.partition(" #")[0].split() for line in section.partition("```sh\n")[2].partition("```")[0].splitlines()
    ]
    assert all(words[0] == "auricle-aggregator" for words in lines)
    places = {"DIR": server.data, "recordings": recordings}
    return [[str(places.get(word, word)) for word in words[1:]] for words in lines]


def typed(*words):
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_until_all_have(server, bundle, *names):
    features = read_bundle(find_bundle(bundle)).manifest.features
    wait_for(
        lambda: all(devices_of(server)[name]["features"] == features for name in names),
        what=f"{', '.join(names)} to have the front end of {bundle}",
    )


def heard(device, label):
    return sum(event["label"] == label for event in device.events())


def test_a_fleet_moves_to_another_front_end_and_back_while_devices_are_killed_or_stay_behind(fleet_of, tmp_path):
    server, device = fleet_of({"base": find_bundle("base")}, own=6)
    one, other, stays = device("one", "base", ("yes", "stop")), device("other", "base", ("yes", "no")), None
    stays = device("stays", "base", ("yes",))
    write_clips(tmp_path / "played", "stop", 20, seed=5)
    with (one.folder / "edge.toml").open("a") as config:
        config.write(f'[microphone]\nbackend = "file"\nfile = "{tmp_path / "played"}"\n')
    add_to(stays, "follow_front_end = false", "[server]")
    for made in (one, other, stays):
        add_to(made, "teach_epochs = 10")
        made.start()
    enrolled(server, 3)
    assert run_round(server)["aggregation"]["devices"]["c4"] == 1
    wait_for(lambda: heard(one, "stop"), what="the sound that was taught")

    move, listing, back = documented(server, tmp_path / "public")
    told = typed(*move)
    assert (told["bundle"], told["devices"], told["without_recordings"]) == (NEW, 3, ["sound-4"])
    wait_for(lambda: "changed to the fleet's front end" in one.log(), what="the first device to change")
    one.end(signal.SIGKILL)  # before its clips are learned anew, or after
    one.start()
    wait_until_all_have(server, NEW, "one", "other")
    found = devices_of(server)
    assert (found["one"]["behind"], found["other"]["behind"]) == ("", "")
    assert f"the fleet's front end, {NEW}; it has time until" in found["stays"]["behind"]
    wait_for(lambda: "follow_front_end" in devices_of(server)["stays"]["trouble"], what="why a device stays")
    assert not found["stays"]["outdated"]
    wait_for(lambda: one.progress_of(NEW).taught, what="the clips to be learned anew")
    before = heard(one, "stop")
    wait_for(lambda: heard(one, "stop") > before, what="the sound with the new front end")

    result = run_round(server)
    assert {participant["name"] for participant in result["participants"]} == {"one", "other"}
    assert result["aggregation"]["devices"] == {"yes": 2, "no": 1, "c4": 1}  # no class was discovered again
    assert recognised(other, "stop", "sound-4", NEW) > 0.6
    assert stays.progress().label_map.names[:1] == ("yes",)  # it goes on with what it has

    typed(*move[:2], "--grace", "1s", "--data", server.data)
    wait_for(lambda: devices_of(server)["stays"]["outdated"], what="the end of the grace")
    (late,) = (found for found in typed(*listing) if found["name"] == "stays")
    assert "the time for that is over" in late["behind"]
    with server.client() as client:
        metrics = client.get("/metrics").text
    assert "auricle_devices_former_front_end 1.0" in metrics
    assert "auricle_devices_outdated 1.0" in metrics

    typed(*back)
    wait_until_all_have(server, "base", "one", "other", "stays")
    assert len(run_round(server)["participants"]) == 3
    assert recognised(other, "stop", "sound-4") > 0.6
    with server.client() as client:
        assert [info["name"] for info in client.get("/v1/classes").json()] == ["yes", "no", "up", "down", "sound-4"]
    assert all("Traceback" not in made.log() for made in (one, other, stays))
