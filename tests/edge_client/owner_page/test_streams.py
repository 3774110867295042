"""A recording session that the page follows, and a second window that would begin another one."""

import asyncio
import json
import threading

from edge_client.errors import BusyError
from edge_client.owner_page import streams


class Store:
    def clips(self, label):
        return []


class Teaching:
    config = settings = None
    store = Store()


def test_a_second_window_that_cannot_record_leaves_the_first_one_its_discarding(monkeypatch):
    recording, busy, discarded = streams.Recording(), threading.Lock(), []

    def record_takes(config, settings, store, label, count, seconds, display):
        if not busy.acquire(blocking=False):
            raise BusyError("another one records")
        while not discarded:
            display.level("", -50.0)
            discarded.extend(filter(None, [display.unwanted()]))

    monkeypatch.setattr(streams, "record_takes", record_takes)

    async def session():
        first = recording.lines(Teaching, "bell", 3)
        await anext(first)
        assert "another one records" in [line async for line in recording.lines(Teaching, "bell", 3)][-1]
        recording.discard(2)
        return [line async for line in first]

    assert json.loads(asyncio.run(session())[-1])["done"]["error"] == ""
    assert discarded == [2]
