"""Warnings that keep coming do not fill the disk."""

import logging

from edge_client.rate_limited_log import RateLimitedLog


def test_the_same_warning_with_other_numbers_is_logged_once(caplog):
    log = RateLimitedLog(logging.getLogger("sparse"))
    for count in range(1_000):
        log.warning(f"lost {count} times, 100% of them")
    log.warning("something else")
    assert [record.getMessage() for record in caplog.records] == ["lost 0 times, 100% of them", "something else"]
