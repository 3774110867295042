"""A round's result from a machine of a real Ray cluster: the same bytes, and who is away is said."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator_server.rounds.computation import Computation, ComputationLostError, compute_here
from aggregator_server.rounds.ray_computation import RayComputation
from tests.support.checkout import run_module
from tests.support.core_fleet import blobs_of
from tests.support.state_servers import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a cluster of this machine alone, on loopback."""
    port, folder = free_port(), tmp_path_factory.mktemp("ray")
    head = subprocess.Popen(
        [
            Path(sys.executable).parent / "ray",
            "start",
            "--head",
            "--block",
            "--node-ip-address=127.0.0.1",
            f"--port={port}",
            "--num-cpus=2",
            "--include-dashboard=false",
            "--object-store-memory=100000000",
            f"--temp-dir={folder}",
        ],
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"},
        stdout=(folder / "log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        while "Ray runtime started" not in (folder / "log").read_text():
            assert head.poll() is None, (folder / "log").read_text()
        yield f"127.0.0.1:{port}"
    finally:
        os.killpg(head.pid, signal.SIGKILL)
        head.wait()


def test_a_cluster_comes_to_the_same_bytes(fleet, snapshot, cluster):
    computation = Computation(fleet.store.blobs, ray=cluster)
    computation.start()
    there = computation(fleet.store.blobs, snapshot)
    computation.close()
    here = compute_here(fleet.store.blobs, snapshot)
    assert blobs_of(there) == blobs_of(here)
    assert there.result.details == here.result.details
    assert there.result.weights is None


def test_what_goes_wrong_on_the_machine_is_tried_again_and_what_kills_it_ends_the_process(fleet, snapshot, cluster):
    def fail(blobs, _snapshot):
        if blobs is None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(28, "no space left on device")

    compute = RayComputation(cluster, fail)
    with pytest.raises(OSError, match="no space left on device"):
        compute(fleet.store.blobs, snapshot)
    with pytest.raises(SystemExit):
        compute(None, snapshot)
    compute.close()


def test_a_cluster_that_is_away_leaves_the_round_as_it_is(fleet, snapshot):
    computation = Computation(fleet.store.blobs, ray=f"127.0.0.1:{free_port()}")
    computation.start()
    with pytest.raises(OSError, match=r"no Ray cluster answers at '127\.0\.0\.1:") as raised:
        computation(fleet.store.blobs, snapshot)
    assert not isinstance(raised.value, ComputationLostError)
    computation.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray", "127.0.0.1:6379"], "machines of a cluster do not see this machine's data folder"),
        (["--store", "blobs", "--ray", "127.0.0.1:{port}"], "no Ray cluster answers at '127.0.0.1:{port}'"),
    ],
)
def test_a_server_does_not_start_without_the_cluster(tmp_path, options, said):
    port = str(free_port())
    options = [option.replace("{port}", port).replace("blobs", str(tmp_path / "blobs")) for option in options]
    done = run_module("aggregator_server.cli", "run", "--data", tmp_path / "data", "--create", *options)
    assert done.returncode != 0
    assert said.replace("{port}", port) in done.stderr
    assert "Traceback" not in done.stderr
