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

from aggregator_server.rounds.views.replies import describe_round, list_rounds
from aggregator_server.store import Store
from tests.support.aggregator_process import tiny_bundle
from tests.support.core_fleet import CoreFleet
from tests.support.shared_servers import SERVERS, SharedServers, SharedState

DISTURBANCES = int(os.environ.get("AURICLE_DISTURBANCES", "5"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 60 * DISTURBANCES)]
KINDS = ("kill", "pause", "database restarted", "cut from the database", "cut from the store")
# Between two disturbances, in seconds: from the middle of what the last one led to, to some rounds.
PAUSES_S = (0.0, 1.0)
LEASE_S = 4.0
PLANS = ({"strategy": "zero_shot"}, {"strategy": "fedavg", "replace_model": True})


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


def outcome(store, round_id):
    """Everything that a round led to, without what says when."""
    found = describe_round(store, round_id)
    kept = ("result_public_set", "result_consensus", "result_weights", "betas", "accuracies", "discovery")
    uploads = sorted((one.device_id, one.upload) for one in found.participants)
    plan = (found.summary.strategy, found.plan.seed)
    return {name: getattr(found, name) for name in kept} | {
        "state": found.summary.state,
        "plan": plan,
        "uploads": uploads,
    }


def undisturbed(folder, devices, plans):
    """What one process alone, with SQLite and a folder, makes of the same rounds."""
    fleet = CoreFleet(folder, devices)
    with contextlib.closing(fleet.store) as store:
        fleet.publish_model(tiny_bundle())
        found = []
        for number, (strategy, seed) in enumerate(plans, 1):
            (plan,) = [plan for plan in PLANS if plan["strategy"] == strategy]
            fleet.run_round(100.0 * number, seed=seed, quorum=1.0, deadline_s=36_000, **plan)
            found.append(outcome(store, number))
        return found


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
            disturb(servers, kind, servers.leader() if leads else rng.randrange(SERVERS), rng)
            done[kind] += 1
    store = Store(servers.state.location(tmp_path / "reader"))
    try:
        rounds = len(list_rounds(store, None, 100_000))
        found = [outcome(store, number) for number in range(1, rounds + 1)]
    finally:
        store.close()
    report(servers, done, rounds)
    assert rounds >= len(PLANS)
    assert len(servers.failovers) >= 3  # after the kill, the pause and the cut at least
    uploads = {(number, name): sha for number, one in enumerate(found, 1) for name, sha in one["uploads"]}
    assert uploads.items() >= servers.receipts.items()  # where an answer was lost, a device has none
    assert len(uploads) == rounds * len(servers.devices)
    assert found == undisturbed(tmp_path / "undisturbed", servers.devices, [one["plan"] for one in found])
