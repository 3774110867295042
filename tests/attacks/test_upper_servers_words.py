"""What a hostile upper server tells a region is refused with the reason, and nothing of it becomes the region's."""

import dataclasses
import json
import time

import numpy as np
import pytest
from sqlalchemy import select

from aggregator_server.fleet.region import ONLY, read_region
from aggregator_server.region.loop import RegionLoop
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from aggregator_server.store import Store
from aggregator_server.store.tables import BlobRow, ModelRow, PublicSetRow, RegionRow, RoundRow
from fleet_protocol.errors import CertificateError, UnreachableError
from fleet_protocol.limits import MODEL_BYTES
from fleet_protocol.messages import Choice, ClassInfo, Enrolled, Work, to_json
from fleet_protocol.tensors import digest, pack
from tests.support.aggregator_process import SharingDevice, public_set, tiny_bundle
from tests.support.core_fleet import CoreFleet, devices
from tests.support.hostile_server import HostileServer, endless, whole
from tests.support.other_front_end import other_public_set
from tests.support.regions import Upper, invite, join
from tests.support.state_servers import located

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


@pytest.fixture
def upper():
    made = Hostile()
    yield made
    made.close()


@pytest.fixture
def region(tmp_path, upper):
    fleet = CoreFleet(tmp_path / "region", devices(2, SharingDevice))
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
    yield fleet
    fleet.store.close()


def rows(store):
    with store.reading() as session:
        return [len(session.scalars(select(kind)).all()) for kind in (BlobRow, ModelRow, PublicSetRow, RoundRow)]


def state(store):
    with store.reading() as session:
        return read_region(session)


def step(fleet):
    RegionLoop(fleet.store, lambda: None, poll_s=0.0).step()


def planned(**changes):
    return {"plan": dataclasses.replace(PLAN, **changes)}


def zeros(count, value=0.0):
    return np.full(count, value, np.float32)


MANY = public_set(classes=9)
BAD = {
    "a strategy that no region passes on": ({"plan": make_plan(RoundRequest("zero_shot"))}, {}, "zero_shot"),
    "a method that nobody knows": (planned(local=Choice("../../etc/passwd")), {}, "passes on rounds"),
    "a setting that no method has": (planned(local=Choice("fedavg", {"epochs": -1})), {}, "epochs"),
    "a deadline in the past": (planned(deadline_s=-1.0), {}, "deadline_s"),
    "an endless round": (planned(deadline_s=1e300), {}, "deadline_s"),
    "a quorum above all": (planned(quorum=7.0), {}, "quorum"),
    "weights of other shapes": ({}, {"weights": weights(**{"head/bias": zeros(9)})}, "head/bias"),
    "weights that are none": ({}, {"weights": weights(more=zeros(2))}, "not those of its model"),
    "weights that are not finite": ({}, {"weights": weights(**{"head/bias": zeros(8, np.nan)})}, "head/bias"),
    "weights beyond all training": ({}, {"weights": weights(**{"head/bias": zeros(8, 1e9)})}, "1e+09"),
    "a model that is none": ({}, {"model": b"#!/bin/sh"}, "cannot be used as a model"),
    "a model that its weights are not of": ({}, {"model": tiny_bundle(capacity=9)}, "head"),
    "a public set that is none": ({}, {"public_set": b"{}"}, "cannot be used as a public set"),
    "a public set of other classes": ({}, {"public_set": public_set(classes=3).pack()}, "public set about"),
    "a name that fools a reader": ({"classes": (ClassInfo("c0", " word"), *CLASSES[1:])}, {}, "a class's name"),
    "more classes than slots": ({"classes": MANY.classes}, {"public_set": MANY.pack()}, "slots"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", ["contribute", "learn"])
def test_what_cannot_be_is_declined_and_nothing_of_it_is_kept(region, upper, name, kind):
    changes, blobs, said = BAD[name]
    upper.hand_out(**blobs)
    upper.work = dataclasses.replace(upper.work, **changes, kind=kind)
    before = rows(region.store)
    step(region)
    assert rows(region.store) == before
    found = state(region.store)
    assert said in found.trouble
    assert (found.part, found.adopted) == (None, None)
    assert found.declined == (7 if kind == "contribute" else None)
    # The upper fleet is told, and a sound round is still taken part in.
    upper.work = dataclasses.replace(WORK, round_id=8)
    step(region)
    assert state(region.store).part is not None


def test_more_bytes_than_a_model_has_are_not_taken(region, upper):
    upper.hand_out(model=endless(MODEL_BYTES + (2 << 20), announced=False))
    before = rows(region.store)
    with pytest.raises(UnreachableError, match=f"more than {MODEL_BYTES} bytes"):
        step(region)
    assert rows(region.store) == before
    assert not list((region.store.folder / "blobs" / "incoming").iterdir())


def test_bytes_of_another_name_are_not_taken(region, upper):
    upper.hand_out(weights=whole(GOOD))
    with pytest.raises(UnreachableError, match="arrived damaged"):
        step(region)
    assert state(region.store).part is None


def test_a_front_end_that_changed_is_not_followed(region, upper):
    other = other_public_set()
    upper.hand_out(public_set=other.pack())
    upper.work = dataclasses.replace(upper.work, classes=other.classes)
    step(region)
    assert state(region.store).trouble
    assert state(region.store).part is None


def test_a_region_speaks_to_no_server_but_the_one_that_it_joined(start_aggregator, tmp_path):
    joined, other = (Upper(start_aggregator, name, "--tls", "auto") for name in ("joined", "other"))
    data = tmp_path / "region"
    assert join(invite(joined.aggregator), data) == 0
    store = Store(located(data))
    try:
        RegionLoop(store, lambda: None, poll_s=0.0).step()
        assert [one["name"] for one in joined.admin.get("/v1/devices").json()] == [state(store).name]
        with store.writing() as session:
            session.get_one(RegionRow, ONLY).urls = [other.aggregator.url]
        with pytest.raises(CertificateError, match="auricle-aggregator join LINK"):
            RegionLoop(store, lambda: None, poll_s=0.0).step()
        assert other.admin.get("/v1/devices").json() == []
    finally:
        store.close()
