"""A fleet on a bad network, killed again and again on either side, comes to the same bytes as one left in peace.

3 kills here; `make soak` makes 100 of them (AURICLE_KILLS).
"""

import contextlib
import os
import random
import shutil
import signal
import time

import pytest

from tests.support.aggregator_process import ENROL, SETTINGS, Aggregator
from tests.support.edge_process import BRISK, EdgeDaemon, give_identity, wait_for
from tests.support.faulty_proxy import FAULTS, FaultyProxy
from tests.support.power_cut import kill_all
from tests.support.sounds import public_set_of, write_clips

KILLS = int(os.environ.get("AURICLE_KILLS", "3"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 60 * KILLS)]
# Between two kills, in seconds: from the middle of a start to the end of a round.
PAUSES_S = (0.2, 6.0)
ROUND = {"epochs": 3, "augmented_copies": 1, "impressions": 4, "impression_steps": 20}
PLANS = (
    {"strategy": "zero_shot", "settings": ROUND},
    {"strategy": "fedavg", "settings": ROUND, "personalisation": {"name": "none"}},
)


class SoakedFleet:
    """An aggregator, two devices that were taught a sound of their own, and a proxy between them."""

    def __init__(self, folder, bundle, clips, public, faults):
        self.server = Aggregator(folder / "server").start()
        self.proxy = FaultyProxy(self._port(), faults, seed=5)
        with self.server.client() as client:
            client.put("/v1/public-set", content=public).raise_for_status()
            client.put("/v1/model", content=bundle.read_bytes()).raise_for_status()
        self.devices = [self._device(folder / name, bundle, clips / name) for name in ("kitchen", "hall")]
        self.rounds = 0

    def _port(self):
        return int(self.server.url.rpartition(":")[2])

    def _device(self, folder, bundle, clips):
        sections = (
            f'[server]\nurl = "{self.proxy.url}"\nenrol_token = "{ENROL}"\nwait_s = 1\nlongest_pause_s = 1\n'
            f"[recordings]\nper_round = [8, 8]\n{BRISK}"
        )
        device = EdgeDaemon(folder, bundle, sections)
        shutil.copytree(clips, device.state / "clips")
        give_identity(device.state, folder.name)
        return device.start(dict(os.environ))

    def enrolled(self):
        with self.server.client() as client:
            return len(client.get("/v1/devices").json()) == len(self.devices)

    def open_round(self):
        plan = PLANS[self.rounds % len(PLANS)] | {"seed": self.rounds, "deadline_s": 36_000, "quorum": 1.0}
        plan |= {"selection": {"seen_within_s": 0}}  # whoever was killed comes back
        with self.server.client() as client:
            client.post("/v1/rounds", json=plan).raise_for_status()
        self.rounds += 1

    def over(self):
        """Return whether every device has learned from the newest round."""
        if not self.rounds:
            return True
        with self.server.client() as client:
            found = client.get(f"/v1/rounds/{self.rounds}").json()
        assert found["summary"]["state"] != "failed", found
        return found["summary"]["state"] == "done" and all(member["learned"] for member in found["participants"])

    def kill(self, number):
        """Kill a device, or the aggregator after the last of them, and start it again."""
        if number < len(self.devices):
            kill_all(self.devices[number].process)
            self.devices[number].start(dict(os.environ))
            return
        kill_all(self.server.process)
        self.server.kill()  # reaps it
        self.server.start()
        self.proxy.server = self._port()

    def end(self):
        self.proxy.share = 0.0
        for device in self.devices:
            assert device.end(signal.SIGTERM) == 0
            assert "Traceback" not in device.log()
        assert self.server.stop() == 0
        self.proxy.close()

    def result(self):
        """Everything that the rounds led to, on either side, without what says when."""
        rounds = []
        with self.server.client() as client:
            for number in range(1, self.rounds + 1):
                found = client.get(f"/v1/rounds/{number}").json()
                kept = ("result_public_set", "result_consensus", "result_weights", "betas", "accuracies", "discovery")
                uploads = [(member["device_id"], member["upload"]) for member in found["participants"]]
                rounds.append({key: found[key] for key in kept} | {"uploads": sorted(uploads)})
            classes = client.get("/v1/classes").json()
        models = [(device.state / "model.safetensors").read_bytes() for device in self.devices]
        return {"rounds": rounds, "classes": classes, "models": models}


@pytest.fixture
def start_fleet(tmp_path, bundles):
    public = public_set_of(tmp_path / "public", ("yes", "no", "up"), 8, SETTINGS).pack()
    for seed, (name, labels) in enumerate({"kitchen": ("yes", "no", "stop"), "hall": ("no", "up", "stop")}.items()):
        for label in labels:
            write_clips(tmp_path / "clips" / name, label, 8, seed=seed)
    started = []

    def start(name, faults):
        started.append(SoakedFleet(tmp_path / name, bundles["cnn1"], tmp_path / "clips", public, faults))
        wait_for(started[-1].enrolled, what="the enrolment of all devices")
        return started[-1]

    yield start
    for fleet in started:
        for process in (fleet.server.process, *(device.process for device in fleet.devices)):
            if process is not None and process.poll() is None:
                kill_all(process)
        with contextlib.suppress(OSError):
            fleet.proxy.close()


def test_kills_on_either_side_and_a_bad_network_change_no_byte(start_fleet):
    rng, killed = random.Random(3), set()
    fleet = start_fleet("disturbed", faults=0.25)
    for _ in range(KILLS):
        ends = time.monotonic() + rng.uniform(*PAUSES_S)
        while time.monotonic() < ends:
            if fleet.over():
                fleet.open_round()
            time.sleep(0.1)
        number = rng.randrange(len(fleet.devices) + 1)
        fleet.kill(number)
        killed.add(number)
    wait_for(fleet.over, 300, "the end of the last round")
    while fleet.rounds < len(PLANS):  # on a slow machine the kills leave time for few
        fleet.open_round()
        wait_for(fleet.over, 300, "the end of the last round")
    disturbed = fleet.result()
    fleet.end()
    print(f"{KILLS} kills, {fleet.rounds} rounds; requests that suffered: {fleet.proxy.done}")
    assert sum(fleet.proxy.done.values()) > 0
    if KILLS >= 100:
        assert killed == {0, 1, 2}
        assert all(fleet.proxy.done[fault] for fault in FAULTS)

    peaceful = start_fleet("undisturbed", faults=0.0)
    for _ in range(fleet.rounds):
        peaceful.open_round()
        wait_for(peaceful.over, 300, "the end of a round")
    undisturbed = peaceful.result()
    peaceful.end()
    assert disturbed["rounds"] == undisturbed["rounds"]
    assert disturbed["classes"] == undisturbed["classes"]
    assert disturbed["models"] == undisturbed["models"]
