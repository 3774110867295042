"""An upper server that tells a region whatever a test says, and a region that joined it."""

import dataclasses
import json
import time

import numpy as np

from aggregator_server.fleet.region import ONLY
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from aggregator_server.store.tables import RegionRow
from fleet_protocol.messages import Choice, ClassInfo, Enrolled, Work, to_json
from fleet_protocol.tensors import digest, pack
from tests.support.aggregator_process import SharingDevice, public_set, tiny_bundle
from tests.support.core_fleet import CoreFleet, devices
from tests.support.hostile_server import HostileServer, whole

PUBLIC, MODEL = public_set().pack(), tiny_bundle()
CLASSES = tuple(ClassInfo(f"c{index}", f"word {index}") for index in range(4))
SHAPES = {"body/kernel": (2, 3), "head/kernel": (3, 8), "head/bias": (8,)}


def weights(**changes):
    arrays = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()} | changes
    return pack(arrays, {"model": digest(MODEL), "classes": [info.class_id for info in CLASSES]})


GOOD = weights()
PLAN = make_plan(RoundRequest("fedavg", personalisation=Choice("none")))
WORK = Work(
    kind="contribute",
    round_id=7,
    plan=PLAN,
    public_set=digest(PUBLIC),
    consensus=None,
    classes=CLASSES,
    model=digest(MODEL),
    weights=digest(GOOD),
)


class Hostile(HostileServer):
    """Takes every enrolment, and hands out work and blobs."""

    def __init__(self):
        self.work, self.blobs = WORK, {digest(data): data for data in (PUBLIC, MODEL, GOOD)}
        super().__init__(self.reply)

    def reply(self, connection, request):
        path = request.split()[1]
        if path == "/v1/devices":
            answer = whole(json.dumps(to_json(Enrolled("1" * 32, CLASSES))).encode())
        elif path.startswith("/v1/work"):
            answer = whole(
                json.dumps(to_json(self.work) if dataclasses.is_dataclass(self.work) else self.work).encode()
            )
        elif path.startswith("/v1/blobs/"):
            found = self.blobs[path.rpartition("/")[2]]
            answer = found if callable(found) else whole(found)
        else:
            answer = whole(b"", "204 No Content")
        answer(connection, request)

    def hand_out(self, **blobs):
        """Change the work to name other blobs, of these bytes or by these answers."""
        for data in blobs.values():
            self.blobs["f" * 64 if callable(data) else digest(data)] = data
        names = {field: "f" * 64 if callable(data) else digest(data) for field, data in blobs.items()}
        self.work = dataclasses.replace(self.work, **names)


def region_of(folder, upper):
    """A fleet with two devices that joined an upper server."""
    fleet = CoreFleet(folder, devices(2, SharingDevice))
    fleet.publish_model(MODEL)
    with fleet.store.writing() as session:
        session.add(
            RegionRow(
                region_id=ONLY,
                urls=[upper.url],
                device_id="1" * 32,
                secret="s" * 43,
                next_secret="",
                name="north",
                joined_at=time.time(),
            )
        )
    return fleet
