"""A round's result from a process of its own: the same bytes, and an end to what kills it every time."""

import dataclasses
import os
import signal

import pytest

from aggregator_server.rounds.computation import Computation, ComputationLostError, compute_here
from tests.support.core_fleet import blobs_of


@pytest.fixture
def computation(fleet):
    computation = Computation(fleet.store.blobs)
    computation.start()
    yield computation
    computation.close()


def test_a_round_that_cannot_be_aggregated_says_why(fleet, snapshot, computation):
    broken = dataclasses.replace(snapshot, public_set="0" * 64)
    assert compute_here(fleet.store.blobs, broken).startswith("BlobError: blob 000")
    assert computation(fleet.store.blobs, broken) == compute_here(fleet.store.blobs, broken)
    assert blobs_of(computation(fleet.store.blobs, snapshot))[0]


def test_what_kills_the_process_every_time_ends_the_round_and_no_other(fleet, snapshot, computation):
    pids = set()
    for _ in range(2):
        pids.add(computation.pid)
        os.kill(computation.pid, signal.SIGKILL)
        with pytest.raises(ComputationLostError, match=f"computed round {snapshot.round_id} ended"):
            computation(fleet.store.blobs, snapshot)
    os.kill(computation.pid, signal.SIGKILL)
    assert "3 times" in computation(fleet.store.blobs, snapshot)
    assert len(pids) == 2
    assert blobs_of(computation(fleet.store.blobs, dataclasses.replace(snapshot, round_id=9)))[0]


def test_a_computation_that_takes_too_long_is_ended(fleet, snapshot):
    hurried = Computation(fleet.store.blobs, limit_s=0.0)
    hurried.start()
    pid = hurried.pid
    with pytest.raises(ComputationLostError, match="longer than 0 s"):
        hurried(fleet.store.blobs, snapshot)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    hurried.close()
