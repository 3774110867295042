"""Failed authentications: ten a minute are answered, then the address waits, longer each time."""

import pytest

from aggregator_server import limits
from aggregator_server.web.guard import FailedAuthentications


def verdicts(failures, address, times):
    return [failures.add(address, now).wait_s for now in times]


def test_the_eleventh_failure_in_a_minute_waits_and_each_next_one_twice_as_long():
    failures = FailedAuthentications()
    assert verdicts(failures, "192.0.2.1", [0.0] * 10) == [0.0] * 10
    first = failures.add("192.0.2.1", 1.0)
    assert (first.wait_s, first.begins) == (60.0, True)
    again = failures.add("192.0.2.1", 31.0)
    assert (again.wait_s, again.begins) == (30.0, False)
    waits, now = [], 61.0
    for _ in range(7):
        waits.append(failures.add("192.0.2.1", now).wait_s)
        now += waits[-1]
    assert waits == [120, 240, 480, 960, 1920, 3600, 3600]
    assert failures.add("192.0.2.1", now + 8_000).wait_s == 0  # forgotten


def test_failures_spread_over_time_and_those_of_others_do_not_count():
    failures = FailedAuthentications()
    assert set(verdicts(failures, "192.0.2.1", range(0, 600, 7))) == {0.0}
    assert set(verdicts(failures, "192.0.2.2", [600.0] * 10)) == {0.0}
    assert failures.add("192.0.2.3", 600.0).wait_s == 0


@pytest.mark.parametrize(
    ("addresses", "waits"),
    [
        (["2001:db8::1", "2001:db8::ffff:1"], True),
        (["2001:db8::1", "2001:db8:0:1::1"], False),
        (["192.0.2.1", "192.0.2.2"], False),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(addresses, waits):
    failures = FailedAuthentications()
    verdicts(failures, addresses[0], [0.0] * 10)
    assert (failures.add(addresses[1], 1.0).wait_s > 0) == waits


def test_it_remembers_only_so_many_addresses():
    failures = FailedAuthentications()
    for number in range(10_005):
        failures.add(f"10.{number // 256 // 256}.{number // 256 % 256}.{number % 256}", 0.0)
    assert len(failures._addresses) == 10_000


def test_of_a_flood_only_so_many_failures_are_counted_in_the_database():
    shared = []
    failures = FailedAuthentications(lambda network: shared.append(network) or (0.0, False))
    for number in range(1_000):
        failures.add(f"10.0.{number // 256}.{number % 256}", 0.0)
    assert len(shared) == limits.FAILURES_SHARED_PER_MINUTE
    failures.add("10.0.0.0", 60.0)
    assert len(shared) == limits.FAILURES_SHARED_PER_MINUTE + 1


def test_an_address_that_waits_by_the_word_of_another_server_is_not_asked_about_again():
    asked = []
    failures = FailedAuthentications(lambda network: asked.append(network) or (30.0, False))
    assert [failures.add("192.0.2.1", now).wait_s for now in (0.0, 10.0, 29.0)] == [30.0, 20.0, 1.0]
    assert asked == ["192.0.2.1"]
