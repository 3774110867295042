"""Power cuts: everything on a device is killed at random instants while it records, is taught, trains and uploads.

5 cuts here; `make soak` makes 200 of them (AURICLE_POWER_CUTS).
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import wave

import numpy as np
import pytest

from edge_client.storage.device_state import DeviceState
from tests.support.aggregator_process import ENROL, SETTINGS
from tests.support.edge_process import ROOT, EdgeDaemon, wait_for
from tests.support.power_cut import kill_all
from tests.support.sounds import public_set_of, write_clips

CUTS = int(os.environ.get("AURICLE_POWER_CUTS", "5"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * CUTS)]
KNOWN = ("yes", "no", "up", "down")
# Adds clips to the store as fast as a very quick owner would, and says of each, once it is safe, that it is finished.
RECORDER = """
import sys, time
from pathlib import Path
import numpy as np
from edge_client.clips.store import ClipStore
from edge_client.config.sections import ClipsConfig
rng = np.random.default_rng(int(sys.argv[2]))
store = ClipStore(Path(sys.argv[1]), ClipsConfig(), 14400)
for number in range(40):
    samples = (0.1 * rng.standard_normal(14400)).astype(np.float32)
    path = store.add("stop", samples, 14400)[0]
    print(path, flush=True)
    time.sleep(rng.uniform(0.0, 0.2))
time.sleep(60)
"""


@pytest.fixture
def scene(tmp_path, bundles, start_aggregator, sound_server):
    """An aggregator, and a device that has clips of known sounds and listens."""
    server = start_aggregator()
    with server.client() as client:
        client.put("/v1/public-set", content=public_set_of(tmp_path / "public", KNOWN, 10, SETTINGS).pack())
    sections = (
        f'[server]\nurl = "{server.url}"\nenrol_token = "{ENROL}"\nwait_s = 2\nlongest_pause_s = 1\n'
        '[microphone]\ndevice = "shelf_microphone"\n[training]\nteach_epochs = 2\nnice = 0\n'
        "[recordings]\nper_round = [10, 12]\n"
    )
    device = EdgeDaemon(tmp_path / "edge", bundles["cnn1"], sections)
    for label in KNOWN[:3]:
        write_clips(device.state / "clips", label, 10, seed=1)
    return server, device


def newest_round(server):
    with server.client() as client:
        rounds = client.get("/v1/rounds").json()
    return max(rounds, key=lambda found: found["round_id"]) if rounds else None


def keep_a_round_open(server):
    found = newest_round(server)
    with server.client() as client:
        if found is None or found["state"] != "open":
            settings = {"epochs": 3, "augmented_copies": 1, "impressions": 4, "impression_steps": 20}
            body = {"strategy": "zero_shot", "settings": settings, "deadline_s": 3600, "quorum": 1.0}
            client.post("/v1/rounds", json=body)  # refused while no device is enrolled, which is no matter


def saved_model(device):
    bundle = device.config.read_text().split('bundle = "')[1].split('"')[0]
    return DeviceState(device.state).model.load(device.folder / bundle)


def check_nothing_is_lost(device, finished, identity):
    """Everything on the disk of a device that does not run is whole, and everything that was finished is there."""
    state = DeviceState(device.state)
    for path in finished:
        with wave.open(path) as file:
            assert len(file.readframes(file.getnframes())) == 2 * 14_400, path
    if identity is not None:
        assert state.identity.load() == identity
    saved = saved_model(device)
    for weights in (saved.bundle.weights, saved.listening):
        assert all(np.isfinite(array).all() for array in weights.values())
    for path in (device.state / "outbox").glob("learned-*.json"):
        json.loads(state.outbox.read(path))
    if state.database.path.exists():
        with contextlib.closing(sqlite3.connect(state.database.path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return saved.progress


def test_power_cuts_at_random_instants_corrupt_nothing_and_lose_nothing(scene):
    server, device = scene
    rng = np.random.default_rng(20)
    finished, identity, seen, longest = [], None, set(), 9.0
    cuts = 0

    def too_few():
        return len(seen) < 2 or len(finished) < CUTS

    while cuts < CUTS or too_few():  # some shall fall into a device at work, not into one that has not begun
        device.start(dict(os.environ))
        command = [sys.executable, "-c", RECORDER, str(device.state / "clips"), str(cuts)]
        recorder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        ends = time.monotonic() + rng.uniform(0.2, longest)
        while time.monotonic() < ends:
            keep_a_round_open(server)
            time.sleep(0.1)
        kill_all(device.process, recorder)  # the sound server is of another house
        # A line that was cut in the middle names a clip that was finished all the same, but cannot be read here.
        finished += [line.rstrip("\n") for line in recorder.stdout if line.endswith("\n")]
        if identity is None and (device.state / "identity.json").exists():
            identity = DeviceState(device.state).identity.load()
        progress = check_nothing_is_lost(device, finished, identity)
        assert DeviceState(device.state).mend() == []
        seen.add((progress.contributed, progress.learned, progress.taught))
        cuts += 1
        if too_few():
            longest *= 1.1  # a busy machine needs longer before a device has done anything that a cut could spoil

    device.start(dict(os.environ))

    def opened():
        keep_a_round_open(server)
        return newest_round(server)

    contributed = wait_for(opened, what="a round")["round_id"]

    def over():
        keep_a_round_open(server)
        found = saved_model(device).progress
        return found.learned >= contributed and "stop" in found.label_map.names

    wait_for(over, what=f"the end of round {contributed} after the last cut")
    assert device.end(signal.SIGTERM) == 0
    check_nothing_is_lost(device, finished, identity)
    assert "Traceback" not in device.log()
    left = [path for path in device.state.rglob(".*") if path.suffix and path.name.count(".") >= 3]
    assert left == []
