"""The loop that moves rounds: it looks after whatever may have changed them, and not for each of a hundred uploads."""

import asyncio
import time

import pytest
from sqlalchemy import event

from aggregator_server.rounds.computation import compute_here
from aggregator_server.rounds.scheduler import Notifier, RoundScheduler
from aggregator_server.store import Store


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    yield store
    store.close()


def test_a_hundred_uploads_are_one_look_and_none_stays_unseen(store):
    looks = []
    event.listen(store.database.engine, "begin", lambda _: looks.append(time.monotonic()))

    async def burst():
        scheduler = RoundScheduler(store, Notifier(), compute_here)
        running = asyncio.create_task(scheduler.run())
        began, wakes = time.monotonic(), 0
        while time.monotonic() < began + 0.5:
            scheduler.wake()
            wakes += 1
            await asyncio.sleep(0)
        last = time.monotonic()
        async with asyncio.timeout(60):
            while looks[-1] <= last:
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait([running])
        return began, last, wakes

    began, last, wakes = asyncio.run(burst())
    within = sum(began <= look <= last for look in looks)
    assert within <= 2 + (last - began) / 0.005
    assert within < wakes
