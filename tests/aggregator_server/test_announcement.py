"""The server on the local network: a real mDNS browser finds it while it runs, where others can reach it."""

from datetime import UTC, datetime
from importlib.metadata import version

import pytest
from zeroconf import ServiceBrowser, ServiceListener, Zeroconf

from aggregator_server import tls
from aggregator_server.announcement import SERVICE, fleet_id, vouching
from tests.support.edge_process import wait_for
from tests.support.multicast import reaches_itself


class Found(ServiceListener):
    """What a browser has seen."""

    def __init__(self):
        self.services, self.seen = {}, set()

    def add_service(self, zc, type_, name):
        self.seen.add(name)
        for _ in range(6):  # a busy machine may miss an answer
            found = zc.get_service_info(type_, name, timeout=10_000)
            if found is not None:
                self.services[name] = found
                return

    def update_service(self, zc, type_, name):
        self.add_service(zc, type_, name)

    def remove_service(self, zc, type_, name):
        self.services.pop(name, None)


@pytest.fixture
def browser():
    """A browser on the loopback interface."""
    if not reaches_itself():
        pytest.skip("multicast does not reach this machine itself")
    zeroconf = Zeroconf(interfaces=["127.0.0.1"])
    found = Found()
    ServiceBrowser(zeroconf, SERVICE, found)
    yield found
    zeroconf.close()


def name_of(server):
    return f"auricle-{fleet_id(server.data)}.{SERVICE}"


@pytest.mark.slow
def test_a_server_that_others_can_reach_is_found_until_it_stops_and_no_other(start_aggregator, browser):
    open_to_all = ("--host", "0.0.0.0", "--tls", "auto")
    quiet, own = start_aggregator("quiet", *open_to_all, "--no-announce"), start_aggregator("own")
    server = start_aggregator("open", *open_to_all)
    found = wait_for(lambda: browser.services.get(name_of(server)), what="the announcement")
    said = {key.decode(): value.decode() for key, value in found.properties.items()}
    assert said == {"id": fleet_id(server.data), "tls": "pinned", "version": version("auricle")}
    assert found.port == int(server.url.rpartition(":")[2])
    assert "127.0.0.1" not in found.parsed_addresses()
    assert server.stop() == 0
    wait_for(lambda: name_of(server) not in browser.services, what="the goodbye")
    assert not {name_of(quiet), name_of(own)} & browser.seen


def test_who_vouches_for_the_server_is_said(tmp_path):
    certificate = tls.automatic(tmp_path, [], datetime.now(UTC))
    assert vouching(None) == "none"
    assert vouching(certificate) == "pinned"
    assert vouching(tls.given(certificate.file, certificate.file)) == "public"
