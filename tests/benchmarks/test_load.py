"""The benchmark of a fleet that does everything at once: a small one goes through a round without an error."""

import json
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT


@pytest.mark.slow
def test_a_small_fleet_goes_through_a_round():
    command = [sys.executable, "-m", "benchmarks.load", "--devices", "20", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["devices"], report["errors"]) == (20, 0)
    figures = ("wake_s", "health_p99_ms", "admin_p99_ms", "upload_cpu_ms", "rss_mb")
    assert all(report[name] > 0 for name in figures), report
