"""What a hostile upper server tells a region is refused with the reason, and nothing of it becomes the region's."""

import dataclasses

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
from fleet_protocol.messages import Choice, ClassInfo
from tests.support.aggregator_process import public_set, tiny_bundle
from tests.support.hostile_server import endless, whole
from tests.support.hostile_upper import CLASSES, GOOD, PLAN, WORK, Hostile, region_of, weights
from tests.support.other_front_end import other_public_set
from tests.support.regions import Upper, invite, join
from tests.support.state_servers import located


@pytest.fixture
def upper():
    made = Hostile()
    yield made
    made.close()


@pytest.fixture
def region(tmp_path, upper):
    fleet = region_of(tmp_path / "region", upper)
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
