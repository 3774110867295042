"""Nothing that the device heard leaves it: every byte that it sends in a round is looked at, from enrolment on."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile

from edge_client.audio.recordings import Recordings
from edge_client.clips.public_set import build_public_set
from edge_client.clips.unknown_clips import UnknownRing
from edge_client.config.sections import ClipsConfig
from edge_client.events import JOURNAL, Event
from edge_client.events.journal import Journal
from edge_client.features.mfcc import Mfcc
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle import read_bundle
from tests.support.aggregator_process import ENROL, SETTINGS
from tests.support.checkout import ROOT
from tests.support.recording_proxy import RecordingProxy
from tests.support.sounds import write_clips

ROUND = {"epochs": 6, "augmented_copies": 1, "impressions": 4, "impression_steps": 30}
SECRET_LABEL = "grandmother's kettle"
WINDOW = 32  # bytes: 16 samples, or 8 of them as float32


def windows_of(data: bytes, step: int) -> list[bytes]:
    """Every window of some bytes that begins at a whole number of steps, without those that hold hardly anything."""
    found = (data[at : at + WINDOW] for at in range(0, len(data) - WINDOW + 1, step))
    return [window for window in found if len(set(window)) > 4]


def occurring(windows: list[bytes], sent: bytes) -> int:
    present = {sent[at : at + WINDOW] for at in range(len(sent) - WINDOW + 1)}
    return sum(window in present for window in windows)


def secrets_of(folder: Path, bundle: Path) -> dict[str, list[bytes]]:
    """What must not leave the device, in the forms in which it could: samples, and features of each clip."""
    model, mfcc = ModelRuntime(read_bundle(bundle)), Mfcc(SETTINGS)
    recordings = Recordings(folder, SETTINGS)
    found: dict[str, list[bytes]] = {name: [] for name in ("int16", "float32", "features", "normalised")}
    for path in sorted(folder.rglob("*.wav")):
        found["int16"] += windows_of(soundfile.read(path, dtype="int16")[0].astype("<i2").tobytes(), 2)
        clip = recordings.load([path])
        found["float32"] += windows_of(clip.astype("<f4").tobytes(), 4)
        features = mfcc(clip)
        found["features"] += windows_of(features.tobytes(), 4)
        found["normalised"] += windows_of(model.normalise(features).tobytes(), 4)
    assert all(len(windows) > 1_000 for windows in found.values())
    return found


@pytest.fixture
def fleet(tmp_path, start_aggregator):
    """An aggregator with a public set, a round's worth of time, and a proxy before it that sees what is sent."""
    server = start_aggregator()
    for label in ("yes", "no", "up"):
        write_clips(tmp_path / "public", label, 8, seed=99)
    with server.client() as client:
        public = build_public_set(tmp_path / "public", SETTINGS, ["yes", "no", "up"], 8)
        client.put("/v1/public-set", content=public.pack()).raise_for_status()
    address = urlsplit(server.url)
    proxy = RecordingProxy(address.hostname, address.port)
    yield server, proxy
    proxy.close()


def wait_for(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"did not happen in {seconds} s")


def taught_device(folder: Path, bundle: Path, url: str) -> Path:
    """A device that was taught two words and a kettle, heard something unknown, and has a journal."""
    folder.mkdir()
    config = folder / "edge.toml"
    config.write_text(
        f'[device]\nname = "shelf"\nstate = "state"\nshare_names = false\n[model]\nbundle = "{bundle}"\n'
        f'[server]\nurl = "{url}"\nenrol_token = "{ENROL}"\nwait_s = 2\nlongest_pause_s = 1\n'
    )
    state = DeviceState(folder / "state")
    clips = state.folder / "clips"
    for label in ("yes", "no", "stop"):
        write_clips(clips, label, 6, seed=1)
    (clips / "stop").rename(clips / SECRET_LABEL)
    noise = np.random.default_rng(2).uniform(-0.4, 0.4, SETTINGS.clip_samples).astype(np.float32)
    UnknownRing(state.unknown_folder, ClipsConfig(), SETTINGS.sample_rate_hz).add(time.time(), 0.2, noise)
    journal = Journal(state.folder / JOURNAL)
    journal.publish(Event(1_700_000_000.5, "detected", SECRET_LABEL, None, 0.9, -20.0))
    journal.close()
    with subprocess.Popen(
        [sys.executable, "-m", "edge_client.learning.worker", str(config)], cwd=ROOT, stdin=subprocess.PIPE
    ) as worker:
        worker.stdin.write(json.dumps({"kind": "teach"}).encode() + b"\n")
        worker.stdin.flush()
        assert worker.wait(60) == 0
    return config


def test_of_all_bytes_that_a_device_sends_none_are_what_it_heard(fleet, tmp_path, bundles):
    server, proxy = fleet
    config = taught_device(tmp_path / "edge", bundles["cnn1"], proxy.url)
    state = DeviceState(tmp_path / "edge" / "state")
    saved = state.load_model(bundles["cnn1"]).progress
    assert saved.label_map.class_ids[saved.label_map.slot_of(SECRET_LABEL)] is None
    command = [sys.executable, "-m", "edge_client.cli", "run", "--config", str(config)]
    with (tmp_path / "log").open("w") as log, server.client() as client:
        daemon = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            wait_for(lambda: client.get("/v1/devices").json())
            body = {"strategy": "zero_shot", "settings": ROUND, "deadline_s": 120, "quorum": 1.0}
            client.post("/v1/rounds", json=body).raise_for_status()
            wait_for(lambda: all(d["learned"] for d in client.get("/v1/rounds/1").json()["participants"]))
            classes = client.get("/v1/classes").json()
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(20)

    # What was taught before the round is a new class of the fleet now, under a name that the owner did not choose.
    discovered = [info for info in classes if info["discovered_in"] is not None]
    assert [info["discovered_in"] for info in discovered] == [1]
    progress = state.load_model(bundles["cnn1"]).progress
    slot = progress.label_map.slot_of(SECRET_LABEL)
    assert progress.label_map.class_ids[slot] == discovered[0]["class_id"]
    assert progress.overtaken  # the owner's sounds are gone over again after a round

    sent = proxy.sent
    assert len(sent) > 10_000  # the whole round went through the proxy
    assert state.identity().device_id.encode() in sent
    assert b"/v1/rounds/1/update" in sent
    assert b"/v1/rounds/1/learned" in sent
    for name, windows in secrets_of(state.folder, bundles["cnn1"]).items():
        assert occurring(windows, sent) == 0, name
        assert occurring(windows, sent + b"x" + windows[len(windows) // 2]) >= 1  # it would have been noticed
    for word in (SECRET_LABEL, "grandmother", "kettle", "SQLite format"):
        assert word.encode() not in sent
