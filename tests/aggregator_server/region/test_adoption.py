"""What a region takes over of an upper fleet whose classes changed."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.errors import CannotPassOnError, InRegionError
from aggregator_server.fleet.classes import list_classes, merged_classes, retired_classes
from aggregator_server.fleet.region import ONLY, read_region
from aggregator_server.region.adoption import adopt, has_adopted
from aggregator_server.region.material import read_material
from aggregator_server.rounds.plan import make_plan
from aggregator_server.rounds.views.replies import describe_round
from aggregator_server.schemas import RoundRequest
from aggregator_server.store.tables import RegionRow
from aggregator_server.undo.class_changes import remove_class
from fleet_protocol.feature_settings import PRESETS
from fleet_protocol.messages import Choice, ClassInfo, MergedClass, Work
from fleet_protocol.tensors import digest, pack
from tests.support.aggregator_process import SharingDevice, public_set, tiny_bundle
from tests.support.core_fleet import CoreFleet, devices

MODEL = tiny_bundle()
SHAPES = {"body/kernel": (2, 3), "head/kernel": (3, 8), "head/bias": (8,)}


@pytest.fixture
def region(tmp_path):
    fleet = CoreFleet(tmp_path / "region", devices(2, SharingDevice))
    row = RegionRow(region_id=ONLY, urls=["http://127.0.0.1:1"], device_id="1" * 32, secret="s" * 43)
    row.next_secret, row.name, row.joined_at = "", "north", 0.0
    with fleet.store.writing() as session:
        session.add(row)
    yield fleet
    fleet.store.close()


def put(store, data):
    with store.blobs.receive() as incoming:
        incoming.write(data)
        return incoming.keep()


def learn(fleet, round_id, public, **changes):
    """Take over the result of an upper round with a public set and its classes."""
    store = fleet.store
    weights = pack({name: np.full(shape, round_id, np.float32) for name, shape in SHAPES.items()}, {"classes": []})
    work = Work(
        kind="learn",
        round_id=round_id,
        plan=make_plan(RoundRequest("fedavg", personalisation=Choice("none"))),
        public_set=put(store, public.pack()),
        consensus=None,
        classes=public.classes,
        model=put(store, MODEL),
        weights=put(store, weights),
    )
    work = dataclasses.replace(work, **changes)
    material = read_material(store.blobs, work)
    with store.writing() as session:
        region = read_region(session)
        adopt(session, region, material, 100.0)
        assert has_adopted(session, region, work)
    return work


def grown(count, names=()):
    public = public_set(classes=count)
    classes = [ClassInfo(info.class_id, name) for info, name in zip(public.classes, names, strict=False)]
    classes += [
        dataclasses.replace(info, discovered_in=7 if index >= 4 else None)
        for index, info in enumerate(public.classes[len(classes) :], start=len(classes))
    ]
    return dataclasses.replace(public, classes=tuple(classes))


def test_classes_that_the_upper_fleet_named_discovered_merged_and_retired_are_so_in_the_region(region):
    learn(region, 3, grown(4))
    first = [(info.class_id, info.name, info.discovered_in) for info in list_classes(region.store)]
    assert first == [(f"c{index}", f"word {index}", None) for index in range(4)]
    learn(region, 4, grown(6, names=("bell", "word 0")))
    found = [(info.class_id, info.name, info.discovered_in) for info in list_classes(region.store)]
    assert [one[:2] for one in found[:2]] == [("c0", "bell"), ("c1", "word 0")]
    assert [one[2] for one in found] == [None] * 4 + [2, 2]  # the region's round that brought them
    fewer = public_set(classes=6)
    classes = tuple(info for info in grown(6).classes if info.class_id not in ("c1", "c4"))
    fewer = dataclasses.replace(fewer, classes=classes, labels=fewer.labels % 4)
    work = learn(region, 5, fewer, merged=(MergedClass("c4", "c0"),), retired=("c1",))
    assert [info.class_id for info in list_classes(region.store)] == ["c0", "c2", "c3", "c5"]
    with region.store.reading() as session:
        assert (merged_classes(session), retired_classes(session)) == ({"c4": "c0"}, ("c1",))
    # The region's devices get the same, and start from what the upper fleet came to.
    theirs = region.work(region.devices[0])
    assert (theirs.kind, theirs.weights, theirs.public_set) == ("learn", work.weights, work.public_set)
    assert (theirs.merged, theirs.retired, theirs.model) == ((MergedClass("c4", "c0"),), ("c1",), digest(MODEL))
    with pytest.raises(InRegionError, match="auricle-aggregator leave"):
        remove_class(region.store, "c0", 200.0)


def test_a_region_makes_no_classes_of_new_sounds(region):
    learn(region, 3, grown(4))
    with region.store.writing() as session:  # as an operator's round, which only a fleet of its own opens
        row = read_region(session)
        session.delete(row)
    round_id = region.open(strategy="fedavg", deadline_s=100.0)
    with region.store.writing() as session:
        session.merge(row)
    for device in region.devices:
        region.learned(device, 1)
        region.upload(device)
    assert region.advance() == round_id
    assert "no room beyond 4 classes" in describe_round(region.store, round_id).discovery.limits[0]
    assert [info.class_id for info in list_classes(region.store)] == ["c0", "c1", "c2", "c3"]


def test_a_front_end_that_the_upper_fleet_changed_is_not_taken_over(region):
    other = PRESETS["log_mel"]
    with pytest.raises(CannotPassOnError, match="front end"):
        learn(region, 3, public_set(settings=other), model=put(region.store, tiny_bundle(settings=other)))
    with region.store.reading() as session:
        assert read_region(session).adopted is None
