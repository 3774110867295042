"""What devices run: kept as they say it, and compared with the server's own version."""

import pytest

from aggregator_server.fleet.devices import describe_device
from aggregator_server.fleet.enrolment import enrol
from aggregator_server.fleet.health import is_outdated
from fleet_protocol.messages.rest import Enrolment, Versions, parse


def test_the_server_knows_what_a_device_runs_until_it_says_something_else(fleet):
    device = fleet.devices[0]
    for said in ({"program": "0.1.0", "bundle": "base", "python": "3.11.2"}, {"program": "0.0.9"}):
        enrol(fleet.store, parse(Enrolment, device.enrolment(versions=said)), 5.0)
        assert describe_device(fleet.store, device.device_id).versions == Versions(**said)


@pytest.mark.parametrize(
    ("program", "ours", "outdated"),
    [
        ("0.1.0", "0.1.0", False),
        ("0.9.0", "0.10.0", True),
        ("0.10.0", "0.9.0", False),
        ("1.0", "1.0.0", False),
        ("1.0.0", "1", False),
        ("1.0.0rc1", "1.0.0", False),
        ("1.0.0.dev4+g12ab", "1.1.0", True),
        ("", "0.1.0", True),
        ("unknown", "0.1.0", True),
        ("9" * 100, "0.1.0", False),
        ("0.1.0", "unknown", False),
    ],
)
def test_versions_are_compared_by_their_numbers(program, ours, outdated):
    assert is_outdated(program, ours) is outdated
