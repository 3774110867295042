"""Three servers of a fleet, killed, paused and cut off again and again, come to the same bytes as one left in peace.

One disturbance of each kind here, of the server that moves rounds; `make soak` makes 100 (AURICLE_DISTURBANCES).
"""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from statistics import median

import pytest

from tests.support.shared_servers import PLANS, SERVERS, SharedServers, SharedState, undisturbed

DISTURBANCES = int(os.environ.get("AURICLE_DISTURBANCES", "5"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 60 * DISTURBANCES)]
KINDS = ("kill", "pause", "database restarted", "cut from the database", "cut from the store")
# Between two disturbances, in seconds: from the middle of what the last one led to, to some rounds.
PAUSES_S = (0.0, 1.0)
LEASE_S = 4.0


@pytest.fixture
def servers(tmp_path, states, monkeypatch):
    for name, value in states.s3.environment.items():  # of the test itself, which reads what came of it
        monkeypatch.setenv(name, value)
    with contextlib.closing(SharedServers(tmp_path, SharedState(states.postgres, states.s3))) as made:
        yield made


def disturb(servers, kind, number, rng):
    longer = LEASE_S + rng.uniform(0.3, 2.0)
    if kind == "kill":
        servers.kill(number)
    elif kind == "pause":
        servers.pause(number, longer)
    elif kind == "database restarted":
        servers.restart_database(rng.choice((signal.SIGINT, signal.SIGQUIT)))
    elif kind == "cut from the database":
        servers.cut_database(number, longer, silently=rng.random() < 0.5)
    else:
        servers.cut_store(number, rng.uniform(0.5, 5.0), silently=rng.random() < 0.5)


def report(servers, done, rounds):
    print(f"\n{sum(done.values())} disturbances ({dict(done)}), {rounds} rounds, {len(servers.receipts)} receipts")
    for kind in sorted({what for what, _ in servers.failovers}):
        took = [seconds for what, seconds in servers.failovers if what == kind]
        print(f"lease taken over after a {kind}: {len(took)} times, median {median(took):.2f} s, worst {max(took):.2f}")


def test_nothing_that_befalls_servers_changes_a_byte_or_loses_an_upload(servers, tmp_path):
    rng, done = random.Random(7), Counter()
    with servers.busy(PLANS):
        for index in range(DISTURBANCES):
            time.sleep(rng.uniform(*PAUSES_S))
            kind = KINDS[index] if index < len(KINDS) else rng.choice(KINDS)
            leads = index < len(KINDS) or rng.random() < 0.6
            disturb(servers, kind, None if leads else rng.randrange(SERVERS), rng)
            done[kind] += 1
    found = servers.outcomes(tmp_path / "reader")
    rounds = len(found)
    report(servers, done, rounds)
    assert rounds >= len(PLANS)
    assert len(servers.failovers) >= 3  # after the kill, the pause and the cut at least
    servers.require_uploads(found)
    assert found == undisturbed(tmp_path / "undisturbed", servers.devices, [one["plan"] for one in found])
