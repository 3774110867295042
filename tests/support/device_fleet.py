"""Whole devices as processes of their own at a real aggregator, and what tests ask of them."""

import json
import os
from contextlib import ExitStack, contextmanager
from pathlib import Path

from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.bundle_file import read_bundle
from tests.support.aggregator_process import ENROL
from tests.support.edge_process import BRISK, EdgeDaemon, give_identity, wait_for
from tests.support.sounds import public_set_of, write_clips

SETTINGS_OF_ROUND = {"epochs": 12, "augmented_copies": 1, "impressions": 8, "impression_steps": 60}


class Device(EdgeDaemon):
    """One of a fleet's devices: an owner's clips, and the daemon on them."""

    def __init__(self, folder: Path, bundle: Path, url: str, **recordings):
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in recordings.items())
        server = f'[server]\nurl = "{url}"\nenrol_token = "{ENROL}"\nwait_s = 5\nlongest_pause_s = 1\n'
        super().__init__(folder, bundle, f'{server}[recordings]\nfolder = "clips"\n{lines}{BRISK}')
        self.clips = folder / "clips"
        self.clips.mkdir()
        give_identity(self.state, folder.name)

    def start(self):
        return super().start(dict(os.environ))

    def mean_of(self, label, settings):
        """The mean embedding of its clips of a label, as its front end computes it."""
        clips = Recordings(self.clips, settings)
        return open_front_end(settings)(clips.load(clips.clips(label))).mean(axis=0)


@contextmanager
def device_fleet(tmp_path, bundles, start_aggregator, labels=("yes", "no", "up", "down"), own=16):
    """An aggregator with a public set, and a function that makes devices with ``own`` clips of each of their labels.

    The features are those of the first bundle. All devices are ended afterwards.
    """
    settings = read_bundle(next(iter(bundles.values()))).manifest.feature_settings
    server = start_aggregator()
    shared = public_set_of(tmp_path / "public", labels, 12, settings)
    with server.client() as client:
        client.put("/v1/public-set", content=shared.pack()).raise_for_status()
    devices = []

    with ExitStack() as running:

        def device(name, architecture, labels, **recordings):
            made = running.enter_context(Device(tmp_path / name, bundles[architecture], server.url, **recordings))
            for label in labels:
                write_clips(made.clips, label, own, seed=len(devices))
            devices.append(made)
            return made

        yield server, device


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
