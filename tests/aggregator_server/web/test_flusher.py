"""What a whole fleet asks at once: one flush to the disk is for many of them."""

import asyncio
import threading

from aggregator_server.web.service import Flusher


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
