"""What the daemon's status says of a device's health."""

import pytest

from edge_client.daemon.health import health_of

STARTED = 1_000.0


def status(**changes):
    loop = {"state": "running", "restarts": 0, "error": "", "stuck": False}
    listening = {"frames": 16_000, "last_frame_age_s": 0.1, "lent": False}
    return {
        "started": STARTED,
        "listening": listening,
        "loops": {"listening": loop, "teaching": loop},
        "damage": [],
        "training": {"error": ""},
        "teaching": {"error": ""},
        "server": None,
        "versions": {"auricle": "0.1.0"},
    } | changes


def loops(name="listening", **changes):
    found = status()["loops"]
    return found | {name: found[name] | changes}


SILENT = {"frames": 16_000, "last_frame_age_s": 100.0, "lent": False}
CASES = [
    ({}, True, ""),
    ({"listening": None, "loops": loops(error="no microphone", restarts=3)}, False, "listening failed: no microphone"),
    ({"listening": None, "loops": loops(state="waiting", error="gone")}, False, "listening failed: gone"),
    ({"loops": loops(error="gone an hour ago", restarts=1)}, True, ""),
    ({"listening": SILENT}, False, "the microphone gives no sound"),
    ({"listening": SILENT | {"lent": True}}, False, ""),  # its owner records with it
    ({"loops": loops("teaching", stuck=True)}, True, "teaching makes no progress"),
    ({"damage": ["a", "model.json was damaged"]}, True, "damaged files were found: model.json was damaged"),
]


@pytest.mark.parametrize(("changes", "listens", "problem"), CASES)
def test_it_listens_or_something_is_the_reason(changes, listens, problem):
    found = health_of(status(**changes), STARTED + 600)
    assert (found.listening, found.problem) == (listens, problem)


def test_a_device_that_has_just_started_has_no_problem_yet():
    assert health_of(status(listening=None), STARTED + 20).problem == ""
    assert health_of(status(listening=None), STARTED + 200).problem == "the microphone gives no sound"


def test_the_last_error_is_told_though_it_is_over():
    assert health_of(status(loops=loops(error="gone an hour ago")), STARTED).error == "listening: gone an hour ago"
    assert health_of(status(server={"error": "does not answer"}), STARTED).error == "does not answer"
    assert health_of(status(), STARTED).error == ""
