"""One journey of each kind: a device from a take to an event, and a fleet through rounds of three strategies.

The fleet is started as README.md shows, in the environment of the tests; its server is killed while a round is open.
"""

import json

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from tests.support.commands import OwnDesk
from tests.support.desk import free_port, next_commands
from tests.support.edge_process import wait_for
from tests.support.sounds import RATE, melody, write_clips, write_two_homes

pytestmark = [pytest.mark.slow, pytest.mark.journey]


@pytest.fixture
def desk(tmp_path):
    found = OwnDesk(tmp_path)
    yield found
    found.close()


def typed(desk, line):
    done = desk.type(line)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def test_a_take_becomes_an_event(desk):
    rng = np.random.default_rng(7)
    said = [np.pad(melody("stop", rng), (RATE, RATE)) + 0.001 * rng.normal(size=3 * RATE) for _ in range(20)]
    (desk.folder / "heard.wav").write_bytes(encode_wave(np.concatenate(said).astype(np.float32), RATE))
    write_clips(desk.folder, "stop", 8, seed=1)
    typed(desk, "auricle-edge init --alone --play heard.wav")
    assert "8" in typed(desk, "auricle-edge import stop --label stop")
    desk.leave_running("auricle-edge run", "run.log")
    wait_for(lambda: json.loads(typed(desk, "auricle-edge events --label stop --json")), what="the event")
    # The status is written every few seconds, so the event may be there before it.
    wait_for(lambda: "stop" in labels(desk, "auricle-edge status"), what="the label in the status")


def test_a_fleet_goes_through_rounds_of_three_strategies_and_its_server_through_a_kill(desk):
    write_two_homes(desk.folder)
    new = typed(desk, f"auricle-aggregator new --from recordings --data fleet --port {free_port()}")
    run, join, start = next_commands(new)
    server = desk.leave_running(run, "server.log")
    desk.wait_for("server.log", '"url"')
    link = join.split()[2]
    for owner in ("kitchen", "hall"):
        desk.leave_running(f"auricle-edge join {link} --recordings {owner} --run", f"{owner}.log")
        desk.wait_for(f"{owner}.log", "enrolled as")
        link = json.loads(typed(desk, "auricle-aggregator invite --data fleet --json"))["link"]
    assert "round 1: prototypes, 2 devices, open" in typed(desk, start)
    typed(desk, "auricle-aggregator round start zero_shot --data fleet")
    server.kill()
    server.wait()
    desk.leave_running(run, "again.log")
    desk.wait_for("again.log", '"url"')
    wait_for(lambda: rounds(desk)[0]["state"] == "done", what="the round that the kill interrupted")
    assert "round 3 done after" in typed(desk, "auricle-aggregator round start fedavg --data fleet --learned")
    found = rounds(desk)
    assert [one["strategy"] for one in found] == ["fedavg", "zero_shot", "prototypes"]
    assert {(one["state"], one["uploaded"]) for one in found} == {("done", 2)}


def labels(desk, command):
    """What a device listens for, as its status says, however it is: none while it starts."""
    return json.loads(desk.type(f"{command} --json").stdout).get("model", {}).get("labels", [])


def rounds(desk):
    return json.loads(typed(desk, "auricle-aggregator rounds --data fleet --json"))
