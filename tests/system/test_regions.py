"""Fleets that are regions of another one: real servers, real HTTP, one upload for each region."""

import numpy as np

from fleet_protocol.tensors import unpack
from tests.support.regions import OWN_MEAN, Region, Upper, mean_of, until


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
