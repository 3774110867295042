"""Take a region through a round of its upper fleet, while it is killed by SIGKILL again and again.

usage: python -m tests.support.killed_region URL ROUND DATA KILLS SEED

URL is the upper server's, where ROUND is open. DATA is the region's folder, with devices 1 to 3 of
``tests.support.aggregator_process.SharingDevice``. Forked processes do the region's step, and what its devices and its
scheduler do; each of the first KILLS is killed at one of its first 3,000 lines of aggregator_server. The last one goes
on until the upper fleet's result is the region's. Prints how many were killed.
"""

import os
import random
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

import httpx

from aggregator_server.region.loop import RegionLoop
from aggregator_server.rounds.devices.work import acknowledge, next_work
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.retention import remove_left_uploads
from aggregator_server.store import Store
from fleet_protocol.messages import Learned
from tests.support.aggregator_process import ADMIN, SharingDevice
from tests.support.core_fleet import SAMPLES, accept
from tests.support.state_servers import located

PACKAGE = str(Path(sys.modules["aggregator_server"].__file__).parent)
CLASSES = ("c0", "c1", "c2", "c3")
_LINES = 3_000  # of about 7,000 that a round takes


def devices_of(count=3):
    return [SharingDevice(number, CLASSES) for number in range(1, count + 1)]


def take_part(store):
    """What the region's devices do now."""
    for device in devices_of():
        work = next_work(store, device.device_id, time.time())
        if work is None:
            continue
        if work.kind == "learn":
            acknowledge(store, device.device_id, Learned(work.round_id))
            continue
        with store.blobs.receive() as incoming:
            incoming.write(device.upload(asdict(work), SAMPLES))
            accept(store, work.round_id, device.device_id, incoming, time.time())


def is_over(url, round_id):
    headers = {"Authorization": f"Bearer {ADMIN}"}
    found = httpx.get(f"{url}/v1/rounds/{round_id}", headers=headers, trust_env=False).raise_for_status().json()
    return found["summary"]["learned"] == 1


def go_on(url, round_id, data, last_line):
    """Do what is left of a round; kill this process at its ``last_line``-th line."""
    lines = 0

    def count(frame, kind, _argument):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if kind == "line":
            lines += 1
            if lines == last_line:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)
    store = Store(located(data))
    remove_left_uploads(store)
    loop = RegionLoop(store, lambda: None, poll_s=0.0)
    while not is_over(url, round_id):
        loop.step()
        take_part(store)
        advance(store, time.time())
    sys.settrace(None)
    store.close()


def in_a_process(action):
    """Run an action in a forked process; return the signal that ended it."""
    child = os.fork()
    if not child:
        try:
            action()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status


def main(url, round_id, data, kills, seed):
    rng, killed = random.Random(seed), 0
    for point in [rng.randint(1, _LINES) for _ in range(kills)] + [0]:
        ended_by = in_a_process(lambda point=point: go_on(url, round_id, data, point))
        killed += ended_by == signal.SIGKILL
        if not ended_by:
            break
    print(killed)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
