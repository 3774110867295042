"""``round``, ``rounds``, ``classes`` and ``devices`` of ``auricle-aggregator``, at a server with devices."""

import dataclasses
import json
import re
import sqlite3
import time
from contextlib import closing

import pytest

from aggregator_server.commands.watching import accuracy_of
from aggregator_server.rounds.replies import recognition_of
from fleet_protocol.messages.rest import ClassReport
from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.commands import answer, command, failed, printed, start
from tests.support.edge_process import wait_for

WORDS = ("c0", "c1", "c2", "c3")


@pytest.fixture(scope="module")
def fleet(aggregator):
    """Two devices, of which the first reports a new sound."""
    reports, sounds = (ClassReport(4, "kettle", 20),), {4: 7}
    found = Fleet(
        aggregator, [FakeDevice(1, WORDS, reports=reports, known=("c0",), sounds=sounds), FakeDevice(2, WORDS)]
    )
    found.publish().raise_for_status()
    found.enrol()
    return found


@pytest.fixture
def here(fleet):
    """The options that name the server, of whose devices it has just heard."""
    fleet.enrol()
    return ("--data", fleet.aggregator.data)


def contribute(fleet, device):
    fleet.upload(device, fleet.contribution(device)).raise_for_status()


def learn(fleet, device):
    work = wait_for(lambda: fleet.work(device), what="the round's result")
    assert work["kind"] == "learn"
    fleet.learned(device, work["round_id"]).raise_for_status()


def test_a_round_is_started_watched_and_listed(fleet, here):
    words = "round start zero_shot --set epochs=3 --deadline 20m --quorum 1 --seed 5 --selection uniform:fraction=1.0"
    opened = answer(*words.split(" "), *here)
    detail = fleet.round(opened["round_id"])
    plan = detail["plan"]
    assert (plan["deadline_s"], plan["quorum"], plan["seed"]) == (1200, 1, 5)
    assert plan["local"]["settings"]["epochs"] == 3
    assert (plan["selection"]["name"], plan["selection"]["settings"]["fraction"]) == ("uniform", 1.0)
    number = opened["round_id"]
    way_out = f"cancel it with `auricle-aggregator round cancel {number}`"
    failed(command("round", "start", *here), f"round {number} is open", way_out)
    failed(command("round", "watch", 999, *here), "there is no round 999; `auricle-aggregator rounds` lists them")

    watching = start("round", "watch", "--learned", *here)
    first = watching.stdout.readline()
    assert f"round {opened['round_id']}: zero_shot, 2 devices, open" in first
    for device in fleet.devices:
        contribute(fleet, device)
    for device in fleet.devices:
        learn(fleet, device)
    output, errors = watching.communicate(timeout=180)
    assert watching.returncode == 0, errors
    assert "device 1: learned" in output
    assert f"round {opened['round_id']} done after" in output
    assert "of 4 classes" in output

    table = printed("rounds", *here).splitlines()
    assert table[0].split()[:3] == ["round", "state", "strategy"]
    assert table[1].split()[:3] == [str(opened["round_id"]), "done", "zero_shot"]
    assert "2 of 2" in table[1]
    assert answer("rounds", "--limit", "1", *here)[0]["learned"] == 2


def silence(fleet, device, seconds):
    """Have the server's tables say that it last heard of a device so long ago."""
    with closing(sqlite3.connect(fleet.aggregator.data / "auricle.db", timeout=60)) as database, database:
        changed = database.execute(
            "UPDATE devices SET seen_at = ? WHERE device_id = ?", (time.time() - seconds, device.device_id)
        )
        assert changed.rowcount == 1


@pytest.mark.slow
def test_nobody_waits_for_a_device_that_is_away(start_aggregator):
    fleet = Fleet(start_aggregator("away"), [FakeDevice(1, WORDS), FakeDevice(2, WORDS)]).ready()
    here = ("--data", fleet.aggregator.data)
    there, _ = fleet.devices
    for device in fleet.devices:
        silence(fleet, device, 7_200)
    failed(command("round", "start", *here), "no device was heard of in the last 120 s", "auricle-edge run")
    assert answer("rounds", *here) == []

    silence(fleet, there, 0)
    watching = start("round", "start", "zero_shot", "--learned", *here)
    assert "round 1: zero_shot, 1 devices, open" in watching.stdout.readline()
    contribute(fleet, there)
    learn(fleet, there)
    output, errors = watching.communicate(timeout=180)
    assert (watching.returncode, errors) == (0, "device 2 is left out: last heard of 2 hours ago\n"), output
    assert "device 1: learned" in output


def test_a_watched_round_that_fails_ends_with_another_status_and_says_why_a_device_gave_nothing(fleet, here):
    opened = answer("round", "start", "zero_shot", *here)
    why = "it has no clips to learn from: its owner has taught it nothing yet"
    watching = start("round", "watch", *here)
    assert "open" in watching.stdout.readline()
    contribute(fleet, fleet.devices[0])
    assert re.match(r"device 1: uploaded after \d+ s \(41 clips\)", watching.stdout.readline())
    client, silent = fleet.clients[fleet.devices[1].number], fleet.devices[1]
    client.post("/v1/devices", json=silent.enrolment(trouble=why)).raise_for_status()
    assert "is cancelled" in printed("round", "cancel", opened["round_id"], *here)
    output, errors = watching.communicate(timeout=180)
    assert watching.returncode == 3
    assert f"device 2: gave nothing ({why})" in output, output + errors
    assert re.search(rf"round {opened['round_id']} cancelled after \d+ s: cancelled by ", output)
    assert re.search(rf"^{opened['round_id']} +cancelled ", printed("rounds", *here), re.MULTILINE)
    client.post("/v1/devices", json=silent.enrolment()).raise_for_status()
    ended = command("round", "watch", "--json", opened["round_id"], *here)
    assert ended.returncode == 3
    assert json.loads(ended.stdout)["summary"]["reason"] == "cancelled by administrator's token"


def test_classes_are_listed_renamed_and_merged_by_name(fleet, here):
    opened = answer("round", "start", "zero_shot", *here)
    for device in fleet.devices:
        contribute(fleet, device)
    assert command("round", "watch", opened["round_id"], *here).returncode == 0
    listed = answer("classes", *here)
    assert [item["class_id"] for item in listed[:4]] == list(WORDS)
    found = listed[4]
    table = printed("classes", *here).splitlines()
    assert table[0].split()[:3] == ["class_id", "name", "state"]
    assert "1 devices" in table[5]
    renamed = printed("classes", "rename", found["name"], "tea kettle", *here)
    assert renamed == f"{found['class_id']}: tea kettle (active)\n"
    failed(command("classes", "rename", "nothing", "x", *here), "there is no class 'nothing'", "classes --all")
    merged = answer("classes", "merge", "tea kettle", "word 0", *here)
    assert (merged["state"], merged["merged_into"]) == ("merged", "c0")
    retired = answer("classes", "retire", "c3", *here)
    assert retired["state"] == "retired"
    assert [item["class_id"] for item in answer("classes", *here)] == ["c0", "c1", "c2"]
    assert {item["state"] for item in answer("classes", "--all", *here)} == {"active", "merged", "retired"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["--url", "--data"]),
        (("--url", "127.0.0.1:8470"), ["--url", "http://host:port"]),
        (("--url", "http://127.0.0.1:9"), ["http://127.0.0.1:9", "does not answer"]),
        (("--data", "nowhere"), ["nowhere", "start it first"]),
    ],
)
def test_a_server_that_is_not_there_is_explained(options, words):
    failed(command("rounds", *options), *words)


@pytest.mark.slow
def test_a_server_on_this_machine_is_found_by_its_data_folder_with_its_certificate_and_token(start_aggregator):
    server = start_aggregator("tls", "--tls", "auto", tokens={})
    assert printed("rounds", "--data", server.data, "--json", token=None) == "[]\n"
    failed(command("rounds", "--url", server.url), "does not answer", "certificate")
    wrong = command("rounds", "--data", server.data, "--token", "of-another-server", token=None)
    failed(wrong, "needs a token")


def test_each_accuracy_is_said_in_plain_words_with_its_number_of_classes():
    learned = {"held_out_before": 80.0, "held_out_after": 75.0, "classes_before": 4.0, "classes_after": 10.0}
    one = {"device_id": "a", "recognition": [dataclasses.asdict(found) for found in recognition_of(learned)]}
    detail = {"accuracies": {"a": 0.5}, "accuracy_classes": {"a": 4}}
    assert accuracy_of(detail, one) == (
        "what it uploaded names 50.0 % rightly, out of 4 classes; its own clips: before 80.0 % rightly, out of 4 "
        "classes, after 75.0 % rightly, out of 10 classes"
    )


def test_a_device_s_first_model_has_no_figure_before_it():
    (found,) = recognition_of({"taught_after": 96.0, "classes_before": 0.0, "classes_after": 4.0})
    one = {"device_id": "a", "recognition": [dataclasses.asdict(found)]}
    assert accuracy_of({"accuracies": {}}, one) == (
        "its own clips, which it learned from: its first model names 96.0 % rightly, out of 4 classes"
    )
