"""The benchmark of a round's cost: real rounds of a real aggregator, and what a device sends and receives."""

import json
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT


@pytest.mark.slow
def test_a_round_of_prototypes_is_a_few_kilobytes_and_one_of_weights_more():
    command = [sys.executable, "-m", "benchmarks.round_overhead", "--devices", "2", "--rounds", "2"]
    done = subprocess.run(
        [*command, "--without-flower", "--json"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["flower_overhead_s"] is None
    assert report["overhead_s"] > 0
    few, many = report["strategies"]
    assert (few["strategy"], many["strategy"]) == ("prototypes", "fedavg")
    assert few["bytes_up"] < 3_000 < many["bytes_up"]
    assert few["bytes_down"] < many["bytes_down"]
