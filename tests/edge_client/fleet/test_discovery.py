"""`auricle-edge join` without a link lists what announces itself, through a real mDNS responder."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
import uuid

import pytest

from edge_client.fleet.discovery import SERVICE, find_aggregators
from tests.support.checkout import ROOT, run_module
from tests.support.edge_process import wait_for
from tests.support.multicast import reaches_itself

zeroconf = pytest.importorskip("zeroconf")
# RFC 1035 and 6762: an authoritative answer, a pointer, the Internet.
_FLAGS_ANSWER, _TYPE_PTR, _CLASS_IN = 0x8400, 12, 1


@pytest.fixture
def fleet_id():
    """An announcement on the loopback interface, as an aggregator makes it."""
    if not reaches_itself():
        pytest.skip("multicast does not reach this machine itself")
    fleet = uuid.uuid4().hex
    network = zeroconf.Zeroconf(interfaces=["127.0.0.1"])
    info = zeroconf.ServiceInfo(
        SERVICE,
        f"auricle-{fleet}.{SERVICE}",
        addresses=[socket.inet_aton("127.0.0.1")],
        port=8470,
        properties={"id": fleet, "tls": "pinned", "version": "0.1.0"},
        server=f"auricle-{fleet}.local.",
    )
    network.register_service(info, cooperating_responders=True)
    yield fleet
    network.close()


def test_an_aggregator_is_listed_with_its_fleet_and_who_vouches_for_it(fleet_id):
    found = wait_for(lambda: [item for item in find_aggregators(1.0) if item.fleet_id == fleet_id])
    assert [(item.url, item.tls, item.version) for item in found] == [("https://127.0.0.1:8470", "pinned", "0.1.0")]


def test_the_command_lists_it_and_says_how_to_join(fleet_id):
    def search(*options):
        return run_module("edge_client.cli", "join", "--seconds", "1", *options).stdout

    def listed():
        return text if fleet_id in (text := search()) else None

    assert "ask its operator for an invitation" in wait_for(listed)
    wait_for(lambda: fleet_id in [item["fleet_id"] for item in json.loads(search("--json") or "[]")])


def announce(aliases, ended):
    """Announce names, and answer nothing of them, until it is over."""
    network = zeroconf.Zeroconf(interfaces=["127.0.0.1"])
    while not ended.wait(0.1):
        sent = zeroconf.DNSOutgoing(_FLAGS_ANSWER)
        for alias in aliases:
            sent.add_answer_at_time(zeroconf.DNSPointer(SERVICE, _TYPE_PTR, _CLASS_IN, 120, alias), 0)
        network.send(sent)
    network.close()


@contextlib.contextmanager
def announced(*names):
    ended = threading.Event()
    thread = threading.Thread(target=announce, args=([f"{name}.{SERVICE}" for name in names], ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.usefixtures("fleet_id")
def test_names_that_nobody_answers_for_do_not_hold_the_search(caplog):
    with announced(*(f"auricle-{number}" for number in range(120))):
        began = time.monotonic()
        found = find_aggregators(1.0)
        assert time.monotonic() - began < 30  # a second for each would be two minutes
    assert len(found) <= 32
    assert "more than 32 aggregators announce themselves" in caplog.text


def test_names_that_cannot_be_shown_are_left_out_and_the_others_listed(fleet_id):
    with announced("auricle-\x1b[2J", "auricle-\n", "auricle-\x00", "x" * 63, "-bad-", "a.b.c"):
        found = wait_for(lambda: [item for item in find_aggregators(1.0) if item.fleet_id == fleet_id])
    assert [item.url for item in found] == ["https://127.0.0.1:8470"]


def test_where_no_socket_can_be_opened_the_way_out_is_said():
    code = (
        "import resource, sys, zeroconf, edge_client.fleet.discovery, edge_client.commands.fleet; "
        "from edge_client.cli import main; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); sys.exit(main(['join']))"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert told.returncode == 1
    assert "cannot look for aggregators" in told.stderr
    assert "auricle-edge join LINK" in told.stderr


def test_without_the_library_the_extra_is_named():
    code = "import sys; sys.modules['zeroconf'] = None; from edge_client.cli import main; sys.exit(main(['join']))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert told.returncode == 1
    assert "needs: pip install 'auricle[discovery]'" in told.stderr
