"""The front door for extensions has these names, no more and no fewer: others' code builds on them."""

from aggregator_server import plugins

NAMES = {
    "a rule": {"Rule", "Updates", "Layout", "weighted_mean", "AggregationError"},
    "a selection": {"Selection", "Candidate", "History", "FRACTION", "SEEN_WITHIN"},
    "a strategy": {"Strategy", "sharing", "DeviceStatistics", "aggregate_shared_model", "check_shared_model"},
    "a strategy's functions": {
        *("RoundInputs", "RoundResult", "Contribution", "UploadTerms", "SharedModel", "Assigned", "Choice", "Update"),
        "MalformedUpdateError",
    },
    "types": {"Arrays", "Doubles", "Floats", "Setting", "Value"},
}


def test_the_front_door_offers_exactly_these_names():
    assert set(plugins.__all__) == set.union(*NAMES.values())
    assert all(hasattr(plugins, name) for name in plugins.__all__)
