"""A whole device whose addresses are killed one after the other while a round goes on: it ends, and counts it once."""

import pytest

from tests.support.device_fleet import SETTINGS_OF_ROUND, enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.fallible_address import FallibleAddress

pytestmark = pytest.mark.slow


@pytest.fixture
def addresses():
    made = []

    def make(server):
        made.extend(FallibleAddress(int(server.url.rpartition(":")[2])) for _ in range(2))
        return made

    yield make
    for address in made:
        address.kill()


def test_a_round_goes_on_at_the_other_address_whenever_one_is_gone(bundles, fleet_of, addresses):
    server, device = fleet_of(bundles)
    both = addresses(server)
    edge = device("edge", "cnn1", ("yes", "no"))
    urls = f'urls = ["{both[0].url}", "{both[1].url}"]'
    edge.config.write_text(edge.config.read_text().replace(f'url = "{server.url}"', urls))
    edge.start()
    enrolled(server, 1)

    def in_use():
        found = edge.status().get("server") or {}
        return next((address for address in both if address.url == found.get("server")), None)

    # While it waits for work.
    used = wait_for(
        lambda: in_use() if (edge.status().get("server") or {}).get("reachable") else None, what="its first"
    )
    (other,) = {*both} - {used}
    used.kill()
    wait_for(lambda: in_use() is other and edge.status()["server"]["reachable"], what="the change to the other")
    shown = edge.command("status", check=False).stdout
    assert f"{used.url}: failed: " in shown
    assert f"{other.url}: in use" in shown
    assert "does not answer" in edge.command("doctor", check=False).stdout

    # In the middle of its upload, and so in the middle of a round.
    used.revive()
    other.cut_body_of = b"/update"
    round_id = open_round(server, settings=SETTINGS_OF_ROUND)
    wait_for(lambda: in_use() is used, what="the change back, in the middle of the upload")
    found = finished(server, round_id)
    assert found["summary"]["state"] == "done"
    assert found["summary"]["uploaded"] == 1
    assert edge.log().count("contribute") == 1  # it was not trained for a second time
    assert edge.end() == 0
