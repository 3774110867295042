"""What a whole fleet asks at once: few requests begin in each turn of the loop, and one flush is for many of them."""

import asyncio
import threading
from functools import partial

import pytest

from aggregator_server.limits import BEGUN_AT_ONCE
from aggregator_server.web.service import Flusher
from aggregator_server.web.transport.connection import Turns, is_of_fleet


def test_few_begin_in_a_turn_of_the_loop_in_the_order_in_which_they_came():
    begun, between, count = [], [], 5 * BEGUN_AT_ONCE + 1

    async def main():
        turns = Turns()
        for number in range(count):
            turns.add(partial(begun.append, number))
        while len(begun) < count:
            before = len(begun)
            await asyncio.sleep(0)  # a turn of the loop, in which others could be answered
            between.append(len(begun) - before)

    asyncio.run(main())
    assert begun == list(range(count))
    assert max(between) == BEGUN_AT_ONCE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/work", True),
        ("/v1/devices", True),
        ("/v1/rounds/7/update", True),
        ("/v1/rounds/7/learned", True),
        ("/v1/blobs/00ff", True),
        ("/v1/health", False),
        ("/v1/rounds", False),
        ("/v1/rounds/7", False),
        ("/v1/classes", False),
    ],
)
def test_people_and_probes_wait_for_no_device(path, expected):
    assert is_of_fleet(f"GET {path} HTTP/1.1\r\nHost: a\r\n".encode()) == expected
    assert is_of_fleet(f"PUT {path}?a=/v1/work HTTP/1.1\r\n".encode()) == expected


class Disk:
    """Flushes when it is told to, and knows what was committed when each flush began."""

    def __init__(self):
        self.committed, self.covered, self.go_on = 0, [], threading.Semaphore(0)
        self.fails = False

    def flush(self):
        self.covered.append(self.committed)
        self.go_on.acquire()
        if self.fails:
            raise OSError("no room")


def test_a_flush_is_for_all_who_came_before_it_began():
    disk = Disk()

    async def commit(flusher):
        disk.committed += 1
        mine = disk.committed
        await flusher.flushed()
        return mine, disk.covered[-1]

    async def main():
        flusher = Flusher(disk.flush)
        first = asyncio.create_task(commit(flusher))
        while not disk.covered:
            await asyncio.sleep(0)
        later = [asyncio.create_task(commit(flusher)) for _ in range(20)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in later)
        for _ in range(2):
            disk.go_on.release()
        return await asyncio.gather(first, *later)

    assert all(mine <= covered for mine, covered in asyncio.run(main()))
    assert disk.covered == [1, 21]


def test_a_disk_that_refuses_is_told_to_all_who_wait_and_the_next_flush_is_tried():
    disk = Disk()

    async def main():
        flusher = Flusher(disk.flush)
        disk.fails = True
        for _ in range(2):
            disk.go_on.release()
        found = await asyncio.gather(*(flusher.flushed() for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in found] == ["no room"] * 3
        disk.fails = False
        disk.go_on.release()
        await flusher.flushed()

    asyncio.run(main())
