"""Warnings that keep coming do not fill the disk."""

import logging
from types import SimpleNamespace

from edge_client import logs
from edge_client.logs import RateLimitedLog


def test_one_warning_of_each_format_is_logged_per_interval_and_the_others_are_counted(caplog, monkeypatch):
    now = [7.0]
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    log = RateLimitedLog(logging.getLogger("limited"), interval_s=0.2)
    for count in range(1_000):
        log.warning("lost %d times, 100%% of them", count)
    log.warning("something else")
    now[0] += 0.25
    log.warning("lost %d times, 100%% of them", 1_000)
    assert [record.getMessage() for record in caplog.records] == [
        "lost 0 times, 100% of them",
        "something else",
        "lost 1000 times, 100% of them (999 more since the last such line)",
    ]
