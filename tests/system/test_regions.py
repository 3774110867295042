"""Fleets that are regions of another one: real servers, real HTTP, one upload for each region."""

import numpy as np
import pytest

from aggregator_server.fleet.devices import enrol
from aggregator_server.rounds.views.replies import describe_round, list_rounds
from aggregator_server.store import Store
from fleet_protocol.messages import Enrolment, parse
from fleet_protocol.tensors import unpack
from tests.support.checkout import run_module
from tests.support.killed_region import devices_of
from tests.support.regions import OWN_MEAN, Region, Upper, invite, join, mean_of, until
from tests.support.state_servers import located


def weights(fleet, sha256):
    return unpack(fleet.admin.get(f"/v1/blobs/{sha256}").raise_for_status().content)[0]


def test_regions_take_part_as_devices_and_their_devices_learn_what_the_upper_fleet_came_to(start_aggregator, tmp_path):
    upper = Upper(start_aggregator)
    regions = [
        Region(upper.aggregator, tmp_path / f"region-{first}", start_aggregator, range(first, first + count), *OWN_MEAN)
        for first, count in ((1, 3), (11, 2))
    ]
    for number in (1, 2):
        round_id = upper.opened()
        sent = {}
        for region in regions:
            sent |= region.take_part()
        found = upper.done(round_id)
        assert (found["summary"]["state"], found["summary"]["uploaded"]) == ("done", 2), found
        result, flat = weights(upper, found["result_weights"]), mean_of(sent)
        assert sorted(one["clips"] for one in found["participants"]) == [51 + 52, 41 + 42 + 43]
        for name, array in flat.items():
            np.testing.assert_allclose(result[name][..., :4], array[..., :4], rtol=1e-5, atol=1e-6)
        for region in regions:
            taken = region.adopted(number)
            assert taken["result_weights"] == found["result_weights"]
            work = region.work(region.devices[0])
            assert (work["kind"], work["round_id"]) == ("learn", taken["summary"]["round_id"])
            assert work["weights"] == found["result_weights"]
        until(lambda number=number: upper.round(number)["summary"]["learned"] == 2, "learned")
    parts = [one for one in regions[0].rounds() if one["upper_round"]]
    assert [(one["upper_round"], one["state"], one["learned"]) for one in parts] == [(2, "done", 0), (1, "done", 0)]


def after_rounds(start_aggregator, tmp_path, name, kills):
    """Take a region through two rounds of an upper fleet of its own; return what both have in the end."""
    upper, data = Upper(start_aggregator, f"upper-{name}"), tmp_path / name
    assert join(invite(upper.aggregator), data, "--name", name, *OWN_MEAN) == 0
    store, killed = Store(located(data)), 0
    for device in devices_of():
        enrol(store, parse(Enrolment, device.enrolment()), now=0.0)
    store.close()
    for number in (1, 2):
        round_id = upper.opened()
        printed = run_module("tests.support.killed_region", upper.aggregator.url, round_id, data, kills, number)
        assert printed.returncode == 0, printed.stderr
        killed += int(printed.stdout)
    store = Store(located(data))
    try:
        here = [(row, describe_round(store, row.round_id)) for row in list_rounds(store, None, 10)]
    finally:
        store.close()
    above = [upper.round(number) for number in (1, 2)]
    assert [one["summary"]["uploaded"] for one in above] == [1, 1]
    conduct = upper.admin.get("/v1/devices").json()[0]["conduct"]
    found = [(row.state, row.operation, row.upper_round, one.result_weights) for row, one in here]
    return killed, conduct, found, [one["result_weights"] for one in above]


@pytest.mark.slow
def test_a_region_that_is_killed_at_any_line_sends_the_same_upload_and_it_counts_once(start_aggregator, tmp_path):
    killed, *disturbed = after_rounds(start_aggregator, tmp_path, "killed", 8)
    none, *undisturbed = after_rounds(start_aggregator, tmp_path, "undisturbed", 0)
    assert none == 0
    assert killed >= 8
    assert disturbed == undisturbed
    assert [found[:3] for found in disturbed[1]] == [
        ("done", "adopt", None),
        ("done", None, 2),
        ("done", "adopt", None),
        ("done", None, 1),
    ]
