"""Joining an upper fleet and leaving it: what is refused leaves nothing, and a copy of a region is that region."""

import contextlib

import pytest

from aggregator_server import cli
from aggregator_server.errors import InRegionError
from aggregator_server.fleet.classes import list_classes, rename_class
from aggregator_server.fleet.region import read_region
from aggregator_server.region.loop import RegionLoop
from aggregator_server.rounds.schedules import add_schedule
from aggregator_server.schemas import RoundRequest, ScheduleRequest
from aggregator_server.store import Store
from fleet_protocol.addresses import InvitationLink
from tests.support.aggregator_process import public_set, tiny_bundle
from tests.support.core_fleet import CoreFleet
from tests.support.regions import invite, join
from tests.support.state_servers import located, options_of


@pytest.fixture(scope="module")
def upper(aggregator):
    with aggregator.client() as admin:
        admin.put("/v1/public-set", content=public_set().pack()).raise_for_status()
        admin.put("/v1/model", content=tiny_bundle()).raise_for_status()
    return aggregator


@contextlib.contextmanager
def opened(data):
    store = Store(located(data))
    try:
        yield store
    finally:
        store.close()


def region_of(store):
    with store.reading() as session:
        return read_region(session)


def there(upper):
    """The identifiers of the devices that take part at the upper server."""
    with upper.client() as admin:
        return {one["device_id"] for one in admin.get("/v1/devices").json() if one["revoked_at"] is None}


def test_what_is_refused_leaves_nothing_behind(upper, tmp_path, capsys):
    link = invite(upper)
    beyond = str(InvitationLink("http://192.0.2.1:8470", InvitationLink.parse(link).token))
    own = CoreFleet(tmp_path / "own", [], public=public_set(classes=5))
    own.store.close()
    before = there(upper)
    for data, options, said in (
        ("new", (link, "--aggregation", "label_wise"), "combines no weights"),
        ("new", (link, "--aggregation", "krum:adversaries=-1"), "adversaries"),
        ("new", (link, "--name", " north"), "the region's name"),
        ("new", (beyond,), "plain HTTP"),
        ("own", (link,), "classes of its own"),
    ):
        assert join(options[0], tmp_path / data, *options[1:]) == 1
        assert said in capsys.readouterr().err
        with opened(tmp_path / data) as store:
            assert region_of(store) is None
    assert there(upper) == before


def test_a_region_joins_again_by_the_same_identity_and_a_copy_of_it_is_the_same_region(upper, tmp_path, capsys):
    data, before = tmp_path / "region", there(upper)
    for name in ("north", "renamed"):
        assert join(invite(upper), data, "--name", name) == 0
    (joined,) = there(upper) - before
    capsys.readouterr()
    with opened(data) as store:
        region = region_of(store)
        assert (region.device_id, region.name) == (joined, "renamed")
        assert [info.class_id for info in list_classes(store)] == ["c0", "c1", "c2", "c3"]
        with upper.client() as admin:  # an operator there asks for a new secret
            admin.post(f"/v1/devices/{joined}/new-secret").raise_for_status()
        RegionLoop(store, lambda: None, poll_s=0.0).step()
        assert region_of(store).secret != region.secret
        secret = region_of(store).secret
        for decide in (
            lambda: rename_class(store, "c0", "other"),
            lambda: add_schedule(store, ScheduleRequest(round=RoundRequest("fedavg"), interval_s=60.0), 1.0),
        ):
            with pytest.raises(InRegionError, match="auricle-aggregator leave"):
                decide()
    assert cli.main(["backup", str(tmp_path / "copy.tar"), "--data", str(data), *options_of(data)]) == 0
    assert cli.main(["restore", str(tmp_path / "copy.tar"), "--data", str(tmp_path / "again")]) == 0
    said = capsys.readouterr()
    assert secret not in said.out + said.err
    with opened(tmp_path / "again") as store:
        RegionLoop(store, lambda: None, poll_s=0.0).step()
        assert (region_of(store).device_id, region_of(store).problem) == (joined, None)
    again = tmp_path / "again"
    assert cli.main(["leave", "--data", str(again), *options_of(again)]) == 0
    assert joined not in there(upper)
    with opened(again) as store:
        assert region_of(store) is None
        rename_class(store, "c0", "its own again")
