"""`auricle-edge join` without a link lists what announces itself, through a real mDNS responder."""

import json
import socket
import subprocess
import sys
import uuid

import pytest

from edge_client.daemon.discovery import SERVICE, find_aggregators
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for
from tests.support.multicast import reaches_itself

zeroconf = pytest.importorskip("zeroconf")


@pytest.fixture
def fleet_id():
    """An announcement on the loopback interface, as an aggregator makes it."""
    if not reaches_itself():
        pytest.skip("multicast does not reach this machine itself")
    fleet = uuid.uuid4().hex
    network = zeroconf.Zeroconf(interfaces=["127.0.0.1"])
    info = zeroconf.ServiceInfo(
        SERVICE, f"auricle-{fleet}.{SERVICE}", addresses=[socket.inet_aton("127.0.0.1")], port=8470,
        properties={"id": fleet, "tls": "pinned", "version": "0.1.0"}, server=f"auricle-{fleet}.local.",
    )  # fmt: skip
    network.register_service(info, cooperating_responders=True)
    yield fleet
    network.close()


def test_an_aggregator_is_listed_with_its_fleet_and_who_vouches_for_it(fleet_id):
    found = wait_for(lambda: [item for item in find_aggregators(1.0) if item.fleet_id == fleet_id])
    assert [(item.url, item.tls, item.version) for item in found] == [("https://127.0.0.1:8470", "pinned", "0.1.0")]


def test_the_command_lists_it_and_says_how_to_join(fleet_id):
    command = [sys.executable, "-m", "edge_client.cli", "join", "--seconds", "1"]

    def said(*options):
        return subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=180).stdout

    def told():
        return text if fleet_id in (text := said()) else None

    assert "ask its operator for an invitation" in wait_for(told)
    wait_for(lambda: fleet_id in [item["fleet_id"] for item in json.loads(said("--json") or "[]")])


def test_without_the_library_the_extra_is_named():
    code = "import sys; sys.modules['zeroconf'] = None; from edge_client.cli import main; sys.exit(main(['join']))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert told.returncode == 1
    assert "needs: pip install 'auricle[discovery]'" in told.stderr
