"""The aggregation benchmark on a few uploads: every rule has its line, beside Flower's where there is one."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_it_prints_a_list_of_every_rules_figures():
    command = [sys.executable, "-m", "benchmarks.aggregation", "--devices", "12", "--turns", "1", "--json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    results = json.loads(lines[-1])
    assert {"lpa", "median", "krum"} <= {result["rule"] for result in results}
    for result in results:
        assert set(result) == {"rule", "ours_s", "flower_s", "read_s", "peak_mb"}
        assert result["ours_s"] > 0
        assert result["read_s"] > 0
        assert result["peak_mb"] > 10
        assert (result["flower_s"] is None) == (result["rule"] in ("lpa", "screened_mean", "clipped mean, adam"))
        assert any(line.startswith(result["rule"]) for line in lines)
