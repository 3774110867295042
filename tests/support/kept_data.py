"""What a version leaves behind, for every later one to open: a fleet's data folder and a device's folder.

``python -m tests.support.kept_data FOLDER`` makes ``server.tar.xz`` and ``device.tar.xz`` there. CONTRIBUTING.md says
when that is due.
"""

import json
import os
import shutil
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.invitation_link import InvitationLink
from tests.support.aggregator_process import Aggregator, Fleet, SharingDevice, tiny_bundle
from tests.support.device_fleet import finished, open_round
from tests.support.edge_process import BRISK, EdgeDaemon, wait_for
from tests.support.sounds import public_set_of, write_clips

CLASSES = ("c0", "c1", "c2", "c3")
FACTS = "facts.json"  # in each archive: what was true when it was made


def make_server(folder: Path) -> dict[str, object]:
    """Run a fleet of shared weights: three rounds, one open, a class renamed, a device revoked; return what is true."""
    devices = [SharingDevice(number, CLASSES) for number in range(1, 5)]
    with Aggregator(folder) as server:
        fleet = Fleet(server.start(), devices).ready(tiny_bundle())
        for _ in range(3):
            fleet.run_round(strategy="fedavg", personalisation={"name": "none"}, quorum=1.0)
        admin = fleet.admin
        admin.patch("/v1/classes/c0", json={"name": "kettle"}).raise_for_status()
        admin.delete(f"/v1/devices/{devices[3].device_id}").raise_for_status()
        operator = admin.post("/v1/tokens", json={"name": "Anna", "role": "operator", "expires_s": None}).json()
        invitation = admin.post("/v1/invitations", json={"devices": 3, "expires_s": None}).json()
        opened = fleet.open_round(strategy="fedavg", personalisation={"name": "none"}, quorum=0.5, deadline_s=864_000)
        for device in devices[:2]:
            fleet.upload(device, fleet.contribution(device)).raise_for_status()
        facts = seen(admin) | {"open": opened, "operator": operator["token"], "invitation": invitation["token"]}
        assert server.stop() == 0
    (folder / "server.log").unlink()
    return facts


def seen(admin) -> dict[str, object]:
    """What an administrator sees of a fleet, as JSON has it."""
    rounds = admin.get("/v1/rounds").json()
    return {
        "devices": [[found["device_id"], found["name"]] for found in admin.get("/v1/devices").json()],
        "rounds": [[found["round_id"], found["state"]] for found in rounds],
        "classes": [found["name"] for found in admin.get("/v1/classes").json()],
        "public": admin.get("/v1/public-set").json()["sha256"],
        "weights": admin.get("/v1/rounds/3").json()["result_weights"],
    }


def configuration(folder: Path) -> str:
    """Write the sections of a device that plays its folder ``played`` after ``[model]``."""
    return f'[microphone]\nfile = "{folder}/played"\n[detector]\nthreshold = 0.5\n{BRISK}'


def make_device(folder: Path) -> dict[str, object]:
    """Have a device be taught, correct what it was taught, hear, and take part in a round; return what is true."""
    for name, count, where in (("yes", 6, "src"), ("no", 6, "src"), ("stop", 4, "src"), ("up", 3, "src")):
        write_clips(folder / where, name, count, 1)
    for name in ("yes", "no"):
        write_clips(folder / "played", name, 4, 2)
    bundle = folder / "bundle.auricle"
    shutil.copyfile(find_bundle("base_int8"), bundle)
    settings = read_bundle(bundle).manifest.feature_settings
    shared = public_set_of(folder / "public", ("yes", "no", "up", "down"), 12, settings)
    with Aggregator(folder / "server") as server, EdgeDaemon(folder, bundle, "") as daemon:
        with closing(server.start().client()) as admin:
            admin.put("/v1/public-set", content=shared.pack()).raise_for_status()
            invitation = admin.post("/v1/invitations", json={"devices": 1}).json()["token"]
        head = '[device]\nname = "kitchen"\nstate = "state"\n[model]\nbundle = "bundle.auricle"\n'
        daemon.config.write_text(head + configuration(folder))
        daemon.command("import", folder / "src")
        daemon.command("clips", "delete", "--label", "up", "--yes")
        daemon.command("clips", "relabel", "--label", "stop", "halt")
        daemon.command("join", str(InvitationLink(server.url, invitation)), "--insecure-http")
        daemon.start(os.environ)
        wait_for(lambda: {"yes", "no", "halt"} <= daemon.labels(), what="that it was taught")
        finished(server, open_round(server, strategy="prototypes", settings={}, quorum=1.0))
        wait_for(lambda: sum(found["kind"] == "detected" for found in daemon.events()) >= 3, what="some events")
        daemon.command("clips", "delete", "--label", "halt", "--yes")
        assert daemon.end() == 0
        (daemon.runtime / "status.json").replace(daemon.state / "status.json")  # a link, where memory holds the file
        events = len(daemon.device_state().database.rows("SELECT kind FROM events WHERE kind = 'detected'"))
    for link in (path for path in daemon.state.iterdir() if path.is_symlink()):  # to sockets
        link.unlink()
    for left in ("src", "played", "public", "server", "run", "log", "events"):
        path = folder / left
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    clips = sorted(str(path.relative_to(daemon.state)) for path in (folder / "state" / "clips").rglob("*.wav"))
    return {"clips": clips, "events": events}


def main(target: Path) -> None:
    """Make both archives in a folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name, make in (("server", make_server), ("device", make_device)):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            folder.mkdir()
            facts = make(folder)
            (folder / FACTS).write_text(json.dumps(facts, indent=1))
            with tarfile.open(target / f"{name}.tar.xz", "w:xz") as archive:
                archive.add(folder, name)
            print(f"{target / name}.tar.xz: {(target / f'{name}.tar.xz').stat().st_size} bytes; {facts}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
