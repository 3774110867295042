"""Strategies of other packages: the tutorial's code on a running server, and packages that cannot be used."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fleet_protocol.tensors import unpack
from tests.support.aggregator_process import Fleet, SharingDevice, tiny_bundle
from tests.support.checkout import ROOT

TUTORIAL = (ROOT / "docs" / "writing-a-strategy.md").read_text()


def install(folder: Path, monkeypatch, source: str, entry: str) -> None:
    """Lay a package out as an installer would."""
    about = folder / "gentle_strategy-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "gentle_strategy.py").write_text(source)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: gentle-strategy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[auricle.strategies]\n{entry}\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")


def block(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", TUTORIAL, re.DOTALL)[1]


def test_the_tutorial_s_strategy_runs_on_a_server(tmp_path, monkeypatch, start_aggregator):
    entry = re.search(r'auricle\.strategies"\]\n(gentle) = "(.*)"', block("toml"))
    install(tmp_path / "package", monkeypatch, block("python"), f"{entry[1]} = {entry[2]}")
    fleet = Fleet(start_aggregator(), [SharingDevice(n, ("c0", "c1")) for n in (1, 2)])
    fleet.publish().raise_for_status()
    fleet.admin.put("/v1/model", content=tiny_bundle()).raise_for_status()
    fleet.enrol()
    refused = fleet.admin.post("/v1/rounds", json={"strategy": "gentle", "aggregation": {"power": 2.0}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_plan")
    refused = fleet.admin.post("/v1/rounds", json={"strategy": "gental"})
    assert "fedavg, fedmmd, fedopt, fedprox, gentle, mutual" in refused.json()["error"]["message"]
    found = fleet.run_round(strategy="gentle", aggregation={"power": 0.3})
    shares = np.array([41, 42]) ** 0.3
    assert found["aggregation"]["largest_share"] == pytest.approx(shares[1] / shares.sum())
    own = [device.arrays({"round_id": 1}, 24)["weights/body/kernel"] for device in fleet.devices]
    weights, _ = unpack(fleet.admin.get(f"/v1/blobs/{found['result_weights']}").content)
    expected = (shares[0] * own[0] + shares[1] * own[1]) / shares.sum()
    np.testing.assert_allclose(weights["body/kernel"], expected, rtol=1e-5)
    fleet.close()


@pytest.mark.parametrize(
    ("source", "entry", "words"),
    [
        ("x = 1", "gentle = gentle_strategy:STRATEGY", ["'gentle'", "cannot be loaded", "STRATEGY"]),
        ("raise RuntimeError('no')", "gentle = gentle_strategy:STRATEGY", ["cannot be loaded", "RuntimeError: no"]),
        ("STRATEGY = 1", "gentle = gentle_strategy:STRATEGY", ["must be", "Strategy", "1"]),
        (block("python"), "fedavg = gentle_strategy:STRATEGY", ["'fedavg'", "taken"]),
        (
            block("python").replace('sharing("fedavg"', 'sharing("fedsgd"'),
            "gentle = gentle_strategy:STRATEGY",
            ["'fedsgd'", "local method", "zero_shot, fedavg"],
        ),
    ],
)
def test_a_package_that_cannot_be_used_keeps_the_server_from_starting(tmp_path, monkeypatch, source, entry, words):
    install(tmp_path / "package", monkeypatch, source, entry)
    command = [sys.executable, "-m", "aggregator_server.cli", "run", "--data", str(tmp_path / "data"), "--port", "0"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert result.returncode == 1
    assert all(word in result.stderr for word in words), result.stderr
    assert "Traceback" not in result.stderr
