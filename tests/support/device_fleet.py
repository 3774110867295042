"""Whole devices as processes of their own at a real aggregator, and what tests ask of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from edge_client.clips.public_set import build_public_set
from edge_client.storage.device_state import DeviceState
from tests.support.aggregator_process import ENROL, SETTINGS
from tests.support.checkout import ROOT
from tests.support.edge_process import BRISK, give_identity, wait_for
from tests.support.sounds import write_clips

WORDS = Path(os.environ.get("AURICLE_DATA", ROOT.parent / "shared" / "data")) / "gsc_v2_test"
SETTINGS_OF_ROUND = {"epochs": 12, "augmented_copies": 1, "impressions": 8, "impression_steps": 60}


class Device:
    """A folder with a configuration, and the daemon on it."""

    def __init__(self, folder: Path, bundle: Path, url: str, **recordings):
        self.folder, self.process = folder, None
        self.clips = folder / "clips"
        self.clips.mkdir(parents=True)
        give_identity(folder / "state", folder.name)
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in recordings.items())
        (folder / "edge.toml").write_text(
            f'[device]\nname = "{folder.name}"\nstate = "state"\n'
            f'[server]\nurl = "{url}"\nenrol_token = "{ENROL}"\nwait_s = 5\nlongest_pause_s = 1\n'
            f'[model]\nbundle = "{bundle}"\n[recordings]\nfolder = "clips"\n{lines}{BRISK}'
        )

    def start(self):
        log = (self.folder / "log").open("a")
        command = [sys.executable, "-m", "edge_client.cli", "run", "--config", str(self.folder / "edge.toml")]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        return self

    def signal(self, number) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def state(self) -> DeviceState:
        return DeviceState(self.folder / "state")


def device_fleet(
    tmp_path,
    bundles,
    start_aggregator,
    labels=("yes", "no", "up", "down"),
    write=write_clips,
    public=12,
    own=16,
    settings=SETTINGS,
):
    """Yield an aggregator with a public set, and a function that makes devices; all are ended afterwards.

    ``write(folder, label, count, seed)`` writes clips: ``public`` of each label, ``own`` for each label of a device.
    """
    server = start_aggregator()
    for label in labels:
        write(tmp_path / "public", label, public, seed=99)
    shared = build_public_set(tmp_path / "public", settings, list(labels), public)
    with server.client() as client:
        client.put("/v1/public-set", content=shared.pack()).raise_for_status()
    devices = []

    def device(name, architecture, labels, **recordings):
        made = Device(tmp_path / name, bundles[architecture], server.url, **recordings)
        for label in labels:
            write(made.clips, label, own, seed=len(devices))
        devices.append(made)
        return made

    yield server, device
    for made in devices:
        if made.process is not None and made.process.poll() is None:
            made.process.kill()
            made.process.wait()


def link_words(folder: Path, label: str, count: int, seed: int) -> None:
    """Link real recordings of a word into ``folder/label/``; other seeds below 4, or 99, have other recordings."""
    recordings = sorted((WORDS / label).glob("*.flac"))
    place = {99: 0}.get(seed, seed + 1)
    (folder / label).mkdir(parents=True, exist_ok=True)
    for path in recordings[place * 80 : place * 80 + count]:
        (folder / label / path.name).symlink_to(path)


def enrolled(server, count):
    with server.client() as client:
        wait_for(lambda: len(client.get("/v1/devices").json()) >= count, what=f"{count} enrolled devices")


def open_round(server, **changes):
    body = {"strategy": "zero_shot", "settings": SETTINGS_OF_ROUND, "deadline_s": 600, "quorum": 1.0} | changes
    with server.client() as client:
        answer = client.post("/v1/rounds", json=body)
        assert answer.status_code in (200, 201), answer.text
        body = answer.json()
        return body.get("round_id") or body["summary"]["round_id"]


def finished(server, round_id, learned=True, seconds=600):
    with server.client() as client:

        def done():
            found = client.get(f"/v1/rounds/{round_id}").json()
            over = found["summary"]["state"] != "open"
            return found if over and (not learned or all(d["learned"] for d in found["participants"])) else None

        return wait_for(done, seconds, f"the end of round {round_id}")


def bundle_of(device):
    return Path((device.folder / "edge.toml").read_text().split('bundle = "')[1].split('"')[0])
