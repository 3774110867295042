"""`auricle-edge join` without a link lists what announces itself, through a real mDNS responder."""

import json
import socket
import subprocess
import sys
import uuid

import pytest

from edge_client.daemon.discovery import SERVICE, find_aggregators
from tests.support.checkout import ROOT

zeroconf = pytest.importorskip("zeroconf")


@pytest.fixture
def fleet_id():
    """An announcement on the loopback interface, as an aggregator makes it."""
    fleet = uuid.uuid4().hex
    try:
        network = zeroconf.Zeroconf(interfaces=["127.0.0.1"])
    except OSError as error:
        pytest.skip(f"no multicast here: {error}")
    info = zeroconf.ServiceInfo(
        SERVICE, f"auricle-{fleet}.{SERVICE}", addresses=[socket.inet_aton("127.0.0.1")], port=8470,
        properties={"id": fleet, "tls": "pinned", "version": "0.1.0"}, server=f"auricle-{fleet}.local.",
    )  # fmt: skip
    network.register_service(info, cooperating_responders=True)
    yield fleet
    network.close()


def test_an_aggregator_is_listed_with_its_fleet_and_who_vouches_for_it(fleet_id):
    found = [item for item in find_aggregators(1.0) if item.fleet_id == fleet_id]
    if not found:
        pytest.skip("multicast does not reach this machine itself")
    assert [(item.url, item.tls, item.version) for item in found] == [("https://127.0.0.1:8470", "pinned", "0.1.0")]


def test_the_command_lists_it_and_says_how_to_join(fleet_id):
    command = [sys.executable, "-m", "edge_client.cli", "join", "--seconds", "1"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    if fleet_id not in told.stdout:
        assert told.returncode in (0, 1)
        pytest.skip("multicast does not reach this machine itself")
    assert "ask its operator for an invitation" in told.stdout
    found = json.loads(subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, check=True).stdout)
    assert fleet_id in [item["fleet_id"] for item in found]


def test_without_the_library_the_extra_is_named():
    code = "import sys; sys.modules['zeroconf'] = None; from edge_client.cli import main; sys.exit(main(['join']))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert told.returncode == 1
    assert "needs: pip install 'auricle[discovery]'" in told.stderr
