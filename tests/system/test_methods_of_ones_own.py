"""Methods of other packages: the tutorial's code on a real server, real devices and the simulator; bad packages."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fleet_protocol.numbers.tensors import unpack
from tests.support.aggregator_process import Fleet, SharingDevice, tiny_bundle
from tests.support.checkout import ROOT, run_module
from tests.support.dashboard_visitor import Visitor
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.installed_package import install_package

pytestmark = pytest.mark.slow

TUTORIAL = (ROOT / "docs" / "writing-a-strategy.md").read_text()
EXAMPLE = ROOT / "examples" / "own_strategy"
FILES = ("gentle_device.py", "gentle_server.py", "pyproject.toml")
DEVICE, SERVER, _ = SHOWN = [(EXAMPLE / name).read_text() for name in FILES]
PROJECT = tomllib.loads(SHOWN[2])["project"]


def install(folder: Path, monkeypatch, entry_points=PROJECT["entry-points"], device=DEVICE, server=SERVER) -> None:
    modules = {"gentle_device": device, "gentle_server": server}
    install_package(folder, "gentle", modules, entry_points, monkeypatch)


def test_the_tutorial_shows_the_example():
    assert re.findall(r"```(?:python|toml)\n(.*?)```", TUTORIAL, re.DOTALL) == SHOWN


def test_rule_settings_and_form_on_a_server(tmp_path, monkeypatch, start_aggregator):
    install(tmp_path / "package", monkeypatch)
    fleet = Fleet(start_aggregator(), [SharingDevice(n, ("c0", "c1")) for n in (1, 2)]).ready(tiny_bundle())
    refused = fleet.admin.post("/v1/rounds", json={"strategy": "gentle", "aggregation": {"power": 2.0}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_plan")
    refused = fleet.admin.post("/v1/rounds", json={"strategy": "gental"}).json()["error"]["message"]
    assert "fedavg, fedkws_ui, fedmlac, fedmmd, fedopt, fedprox, gentle, prototypes, zero_shot" in refused
    found = fleet.run_round(strategy="gentle", aggregation={"power": 0.3}, selection={"name": "log_size"})
    shares = np.array([41, 42]) ** 0.3
    assert found["aggregation"]["largest_share"] == pytest.approx(shares[1] / shares.sum())
    own = [device.arrays({"round_id": 1}, 24)["weights/body/kernel"] for device in fleet.devices]
    weights, _ = unpack(fleet.admin.get(f"/v1/blobs/{found['result_weights']}").content)
    expected = (shares[0] * own[0] + shares[1] * own[1]) / shares.sum()
    np.testing.assert_allclose(weights["body/kernel"], expected, rtol=1e-5)

    visitor = Visitor(fleet.aggregator)
    visitor.sign_in()
    assert 'value="gentle"' in visitor.get("/rounds/new").text
    plan = {
        "strategy": "gentle",
        "settings": {"label_smoothing": 0.25},
        "selection": {"name": "log_size"},
        "personalisation": {"name": "halfway"},
    }
    fleet.admin.post("/v1/rounds", json=plan).raise_for_status()
    found = fleet.admin.get("/v1/rounds/2").json()["plan"]
    assert found["local"]["settings"]["label_smoothing"] == 0.25
    assert (found["selection"]["name"], found["personalisation"]["name"]) == ("log_size", "halfway")


def test_all_five_with_real_devices(tmp_path, monkeypatch, bundles, fleet_of):
    install(tmp_path / "package", monkeypatch)
    server, device = fleet_of(bundles)
    with server.client() as client:
        client.put("/v1/model", content=bundles["cnn2"].read_bytes()).raise_for_status()
    for name in ("first", "second"):
        device(name, "cnn2", ("yes", "no", "up", "down")).start()
    enrolled(server, 2)
    settings = {"epochs": 4, "augmented_copies": 1, "label_smoothing": 0.2}
    personal = {"name": "halfway", "settings": {"share": 0.25, "epochs": 2}}
    found = finished(server, open_round(server, strategy="gentle", settings=settings, personalisation=personal))
    assert found["summary"]["state"] == "done", found["summary"]
    plan = found["plan"]
    assert (plan["local"]["name"], plan["local"]["settings"]["label_smoothing"]) == ("smoothed", 0.2)
    assert plan["selection"] == {"name": "log_size", "settings": {"fraction": 1.0}}
    assert found["aggregation"]["largest_share"] == pytest.approx(0.5)
    # Smoothed labels keep the loss above the entropy of (0.85, 0.05, 0.05, 0.05), which plain labels would not.
    losses = [taken["metrics"]["training_loss"] for taken in found["participants"]]
    assert min(losses) > 0.55
    assert plan["personalisation"]["settings"]["share"] == 0.25
    learned = wait_for(lambda: learned_by_all(server), 300, "the personal models")
    assert all({"kept", "personal_accuracy"} <= set(metrics) for metrics in learned)


def learned_by_all(server) -> list[dict[str, float]] | None:
    """Return what the devices of the first round report of their personal models, once all of them have."""
    with server.client() as client:
        taken = client.get("/v1/rounds/1").json()["participants"]
    return [one["learned_metrics"] for one in taken] if all(one["personalised"] for one in taken) else None


POINTS, MEDIAN = PROJECT["entry-points"], {"auricle.rules": {"median": "gentle_server:RULE"}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server": "raise RuntimeError('no')"}, ["'gentle'", "cannot be loaded", "RuntimeError: no"]),
        ({"device": f"{DEVICE}\nPERSONALISATION = METHOD"}, ["'halfway'", "must lead to", "Personalisation"]),
        ({"server": SERVER.replace('sharing("gentle"', 'sharing("fedavg"')}, ["'gentle'", "'fedavg'", "that name"]),
        ({"server": SERVER.replace('"smoothed"', '"smoothened"')}, ["'smoothened'", "local method", "fedavg"]),
        ({"server": SERVER.replace('"log_size")', '"log_size", personalisation="x")')}, ["'x'", "personalisation"]),
        (
            {"server": SERVER.replace('"power_mean", {', '"median", {'), "entry_points": POINTS | MEDIAN},
            ["'median' is taken"],
        ),
    ],
)
def test_a_package_that_cannot_be_used_keeps_the_server_from_starting(tmp_path, monkeypatch, changes, words):
    install(tmp_path / "package", monkeypatch, **changes)
    result = run_module("aggregator_server.cli", "run", "--create", "--port", "0", "--data", tmp_path / "data")
    assert result.returncode == 1
    assert all(word in result.stderr for word in words), result.stderr
    assert "Traceback" not in result.stderr
